-- include parts/calls.lua
-- Returns eight digits of the id of a server's run, or nothing where INFO may not be asked.
local function run_of(section, field)
  local info = pcall('INFO', section)
  return type(info) == 'string' and string.match(info, field .. ':(%x%x%x%x%x%x%x%x)') or ''
end

-- Returns the name of one run of a server, in one generation: numbers of another may have fallen back.
local function incarnation_of(generation)
  return generation .. run_of('server', 'run_id') .. run_of('replication', 'master_replid')
end

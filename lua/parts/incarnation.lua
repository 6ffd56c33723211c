-- One run of a server, in one generation: numbers of another may have fallen back. Who may not ask does without.
local function run_of(section, field)
  local info = pcall('INFO', section)
  return type(info) == 'string' and string.match(info, field .. ':(%x%x%x%x%x%x%x%x)') or ''
end
local incarnation = settled[1] .. run_of('server', 'run_id') .. run_of('replication', 'master_replid')

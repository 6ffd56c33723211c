-- The two ways to run a command of Redis: an error of `call` ends the script, `pcall` returns it.
local call, pcall = redis.call, redis.pcall

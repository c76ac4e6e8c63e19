-- The hosts and the runs of a cluster (stores/registry.py), all under one hash tag.
--
--   {tag}members       node -> its Member, packed
--   {tag}leases        nodes, by the millisecond of the server's clock at which their leases end
--   {tag}incarnations  node -> how often it has begun
--   {tag}runs          name -> ClusterRun, packed
--   {tag}news          a stream of one entry, whose number grows when something above changes

local function now_ms()
  local time = redis.call("TIME")
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function now_seconds()
  local time = redis.call("TIME")
  return tonumber(time[1]) + tonumber(time[2]) / 1e6
end

local function tell(tag)
  redis.call("XADD", tag .. "news", "MAXLEN", 1, "*", "", "")
end

-- Members whose leases have run out are gone, and the first who looks tells the others.
local function drop_expired(tag)
  local expired = redis.call("ZRANGE", tag .. "leases", "-inf", now_ms(), "BYSCORE")
  for _, node in ipairs(expired) do
    redis.call("HDEL", tag .. "members", node)
    redis.call("ZREM", tag .. "leases", node)
  end
  if #expired > 0 then
    tell(tag)
  end
end

-- node, member, milliseconds
local function renew(keys, args)
  local tag, node, member = keys[1], args[1], args[2]
  drop_expired(tag)
  local known = redis.call("HGET", tag .. "members", node)
  redis.call("ZADD", tag .. "leases", now_ms() + tonumber(args[3]), node)
  if known ~= member then
    redis.call("HSET", tag .. "members", node, member)
    tell(tag)
  end
end

-- node, member as it was known
local function drop(keys, args)
  local tag = keys[1]
  if redis.call("HGET", tag .. "members", args[1]) == args[2] then
    redis.call("HDEL", tag .. "members", args[1])
    redis.call("ZREM", tag .. "leases", args[1])
    tell(tag)
  end
end

local function members(keys)
  drop_expired(keys[1])
  return redis.call("HVALS", keys[1] .. "members")
end

-- node, the last one known to the caller
local function next_incarnation(keys, args)
  local counts = keys[1] .. "incarnations"
  local last = tonumber(redis.call("HGET", counts, args[1]) or 0)
  local next = math.max(last, tonumber(args[2])) + 1
  redis.call("HSET", counts, args[1], string.format("%.0f", next))
  return next
end

-- --- runs ----------------------------------------------------------------------------------------

local function write_run(tag, run)
  local packed = cmsgpack.pack(run)
  redis.call("HSET", tag .. "runs", run.name, packed)
  tell(tag)
  return packed
end

-- name, run
local function add_run(keys, args)
  local known = redis.call("HGET", keys[1] .. "runs", args[1])
  if known then
    return known
  end
  local run = cmsgpack.unpack(args[2])
  if run.submitted_at == 0 then
    run.submitted_at = now_seconds()
  end
  return write_run(keys[1], run)
end

-- name, state
local function end_run(keys, args)
  local packed = redis.call("HGET", keys[1] .. "runs", args[1])
  local run = packed and cmsgpack.unpack(packed)
  if not run or run.state ~= "running" then
    return packed
  end
  run.state, run.ended_at = args[2], now_seconds()
  return write_run(keys[1], run)
end

-- name, keepers
local function set_keepers(keys, args)
  local packed = redis.call("HGET", keys[1] .. "runs", args[1])
  if not packed then
    return packed
  end
  local run, keepers = cmsgpack.unpack(packed), cmsgpack.unpack(args[2])
  if cmsgpack.pack(run.keepers) == cmsgpack.pack(keepers) then
    return packed
  end
  run.keepers = keepers
  return write_run(keys[1], run)
end

-- name, promise
local function set_promise(keys, args)
  local packed = redis.call("HGET", keys[1] .. "runs", args[1])
  if not packed then
    return packed
  end
  local run = cmsgpack.unpack(packed)
  run.promise = cmsgpack.unpack(args[2])
  return write_run(keys[1], run)
end

-- name
local function drop_run(keys, args)
  if redis.call("HDEL", keys[1] .. "runs", args[1]) > 0 then
    tell(keys[1])
  end
end

-- The position of the news, and the milliseconds until the next lease ends, -1 if none does.
local function look(keys)
  local tag = keys[1]
  drop_expired(tag)
  local last = redis.call("XREVRANGE", tag .. "news", "+", "-", "COUNT", 1)[1]
  local first = redis.call("ZRANGE", tag .. "leases", 0, 0, "WITHSCORES")
  return { last and last[1] or "0-0", first[2] and tonumber(first[2]) - now_ms() or -1 }
end

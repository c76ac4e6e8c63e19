-- One shard of the store (stores/shard.py): the functions that callers of the server see.

-- Time is the server's. It never goes back, not even if another server with a slower clock takes
-- over. A test may say what time it is.
local function time_of(asked)
  local now = asked.now
  if not now then
    local seconds_and_micros = call("TIME")
    now = tonumber(seconds_and_micros[1]) + tonumber(seconds_and_micros[2]) / 1e6
  end
  shard.now = math.max(shard.now, now)
  return shard.now
end

local function find_tools()
  call, pack = redis.call, cmsgpack.pack
  unpack_all, unpack_some = cmsgpack.unpack, cmsgpack.unpack_limit
  concat, char, sub = table.concat, string.char, string.sub
end

local function open_shard(keys, shards)
  prefix = keys[1]
  tasks, tasks_as_read, nodes, nodes_as_read = {}, {}, {}, {}
  new_specs, new_outputs = {}, {}
  read_shard(shards)
end

local function write_what_changed()
  write_changed("tasks", tasks, tasks_as_read, pack_task)
  write_changed("nodes", nodes, nodes_as_read, pack_node)
  write_new("specs", new_specs)
  write_new("outputs", new_outputs)
  write_shard()
end

-- Apply the operations of one call, in order. The server takes nothing back when a function fails,
-- so what the operations before a failing one did is written all the same.
local function apply(keys, args)
  find_tools()
  local asked = unpack_all(args[1])
  open_shard(keys, asked.shards)
  if shard.shards ~= asked.shards then
    return redis.error_reply("SHARDS " .. shard.shards)
  end
  grow_epoch(asked.seen_epoch, asked.seen_run)
  local now, answers = time_of(asked), {}
  read_tasks(asked.operations, unpack_task)
  local is_well, trouble = pcall(function()
    for i, op in ipairs(asked.operations) do
      answers[i] = rules[op.type](op, now)
    end
  end)
  write_what_changed()
  if not is_well then
    error(trouble)
  end
  return "\147" .. pack(shard.epoch, shard.run) .. packed_array(answers)
end

-- Remove at most so many tasks, inputs and nodes each. Returns 0 once nothing of the shard is left.
local function erase(keys, args)
  find_tools()
  prefix = keys[1]
  local limit = tonumber(args[1])
  local erased = call("LPOP", key("submitted"), limit) or {}
  for _, task in ipairs(erased) do
    call("UNLINK", key("heard", task), key("copies", task))
  end
  for _, input in ipairs(call("SPOP", key("inputs"), limit)) do
    erased[#erased + 1] = input
    call("UNLINK", key("input", input))
  end
  for _, node in ipairs(call("HRANDFIELD", key("nodes"), limit)) do
    erased[#erased + 1] = node
    call("HDEL", key("nodes"), node)
    for _, name in ipairs({ "stays", "queue", "order", "again", "claimed" }) do
      call("UNLINK", key(name, node))
    end
  end
  if #erased > 0 then
    return 1
  end
  for _, name in ipairs({ "tasks", "specs", "outputs", "full", "given", "begun", "begun_of", "leases" }) do
    call("UNLINK", key(name))
  end
  call("DEL", prefix)
  return 0
end

-- How many of each thing the shard keeps that must be 0 when every task has ended. It reads all
-- tasks, so it is for tests.
local function loose_ends(keys)
  find_tools()
  open_shard(keys)
  local ends = {
    ["full outboxes"] = call("ZCARD", key("full")) + call("ZCARD", key("given")),
    ["attempts to ask after"] = call("ZCARD", key("begun")),
    ["attempts of tasks"] = 0,
    ["names of forgotten tasks"] = math.max(
      call("LLEN", key("submitted")) - 2 * call("HLEN", key("tasks")) - TRIM_TASKS, 0
    ),
    ["tasks queued"] = 0,
    ["tasks held"] = 0,
    ["tasks queued while held"] = 0,
    ["past queue entries"] = 0, -- a sorted set has none
    ["leases listed twice"] = 0,
  }
  local function add(name, count)
    ends[name] = ends[name] + count
  end
  for _, packed in ipairs(call("HVALS", key("tasks"))) do
    add("attempts of tasks", count_attempts(unpack_task("", packed)))
  end
  for _, id in ipairs(call("HKEYS", key("nodes"))) do
    local held_below = "(" .. string.format("%.0f", QUEUED)
    add("tasks queued", call("ZCARD", key("queue", id)))
    add("tasks held", call("ZCOUNT", key("order", id), 0, held_below))
    add("tasks queued while held", call("HLEN", key("again", id)))
  end
  return pack(ends)
end

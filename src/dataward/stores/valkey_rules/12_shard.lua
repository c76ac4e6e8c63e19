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
  concat, char, sub, find = table.concat, string.char, string.sub, string.find
end

local function open_shard(tag, shards)
  prefix = tag
  keys, tasks, tasks_as_read, nodes, nodes_as_read, specs = {}, {}, {}, {}, {}, {}
  new_names, changed_fields, changed_members = {}, {}, {}
  read_shard(shards)
end

-- Read what the operations need, many records at once: the tasks they are about, the specs of those
-- that begin or end, the stays that come or go.
local function read_ahead(operations)
  local wanted, with_specs, stays_of = {}, {}, {}
  for _, op in ipairs(operations) do
    local task = op.task
    if task then
      if tasks[task] == nil then
        tasks[task] = false
        wanted[#wanted + 1] = task
      end
      if op.type == "Begin" or op.type == "Commit" then
        with_specs[#with_specs + 1] = task
      end
    elseif op.entries or op.tasks then
      local names = stays_of[op.node] or {}
      stays_of[op.node] = names
      for _, stay in ipairs(op.entries or op.tasks) do
        names[#names + 1] = stay[1]
      end
    end
  end
  read_tasks(wanted)
  read_specs(with_specs)
  for id, names in pairs(stays_of) do
    local node = find_node(id)
    if node then
      read_stays(node, names)
    end
  end
end

local function write_what_changed()
  write_tasks()
  write_nodes()
  write_changes()
  write_shard()
end

-- The pieces of the answers, in order. The server takes nothing back when a function fails, so what
-- the operations before a failing one did is written all the same.
local function answer_all(operations, now, pieces)
  local is_well, trouble = pcall(function()
    for _, op in ipairs(operations) do
      local first, second, third, fourth = rules[op.type](op, now)
      pieces[#pieces + 1] = first
      if second then
        pieces[#pieces + 1] = second
        pieces[#pieces + 1] = third
        pieces[#pieces + 1] = fourth
      end
    end
  end)
  write_what_changed()
  if not is_well then
    error(trouble)
  end
end

-- Apply the operations of one call, in order.
local function apply(tags, args)
  find_tools()
  local asked = unpack_all(args[1])
  open_shard(tags[1], asked.shards)
  if shard.shards ~= asked.shards then
    return redis.error_reply("SHARDS " .. shard.shards)
  end
  grow_epoch(asked.seen_epoch, asked.seen_run)
  local now, operations = time_of(asked), asked.operations
  read_ahead(operations)
  local pieces = { array_start(3) .. pack(shard.epoch, shard.run) .. array_start(#operations) }
  answer_all(operations, now, pieces)
  return concat(pieces)
end

-- Remove at most so many tasks, inputs and nodes each. Returns 0 once nothing of the shard is left.
local function erase(tags, args)
  find_tools()
  prefix, keys = tags[1], {}
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
local function loose_ends(tags)
  find_tools()
  open_shard(tags[1])
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

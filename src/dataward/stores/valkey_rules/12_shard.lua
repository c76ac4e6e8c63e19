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
  if not numbers[0] then
    fill_words()
  end
end

local function open_shard(tag, shards)
  set_keys(tag)
  tasks, tasks_as_read, nodes, nodes_as_read, specs, pending = {}, {}, {}, {}, {}, {}
  read_shard(shards)
end

-- Read the stays of tasks at nodes; each task is followed by other values, so many with it.
local function read_stays_of(ids, stays, width)
  local names = {}
  for i, id in ipairs(ids) do
    names[id] = names[id] or {}
    for place = 1, #stays[i], width do
      names[id][#names[id] + 1] = stays[i][place]
    end
  end
  for id, of_node in pairs(names) do
    local node = find_node(id)
    if node then
      read_stays(node, of_node)
    end
  end
end

-- Read what the operations need, many records at once: the tasks they are about, the specs of those
-- that begin or end, the stays that come or go.
local function read_ahead(runs)
  for _, run in ipairs(runs) do
    local of_tasks, of_nodes = run.columns.task, run.columns.node
    if of_tasks then
      read_tasks(of_tasks)
      if run.type == "Begin" or run.type == "Commit" then
        read_specs(of_tasks)
      end
    elseif run.columns.entries then
      read_stays_of(of_nodes, run.columns.entries, 4)
    elseif run.columns.stays then
      read_stays_of(of_nodes, run.columns.stays, 2)
    end
  end
end

local function write_what_changed()
  write_tasks()
  write_nodes()
  flush_all()
  write_shard()
end

-- Apply operations of one kind, in order, and add the pieces of their answers.
local function apply_run(run, now, pieces)
  local rule, names, columns, op = rules[run.type], {}, {}, {}
  for name, values in pairs(run.columns) do
    names[#names + 1], columns[#columns + 1] = name, values
  end
  for i = 1, run.count do
    for field = 1, #names do
      op[names[field]] = columns[field][i]
    end
    local first, second, third, fourth = rule(op, now)
    pieces[#pieces + 1] = first
    if second then
      pieces[#pieces + 1] = second
      pieces[#pieces + 1] = third
      pieces[#pieces + 1] = fourth
    end
  end
end

-- Apply all operations. The server takes nothing back when a function fails, so what the operations
-- before a failing one did is written all the same.
local function apply_runs(runs, now, pieces)
  local is_well, trouble = pcall(function()
    for _, run in ipairs(runs) do
      apply_run(run, now, pieces)
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
  local now, count = time_of(asked), 0
  for _, run in ipairs(asked.runs) do
    count = count + run.count
  end
  read_ahead(asked.runs)
  local pieces = { array_start(3) .. pack(shard.epoch, shard.run) .. array_start(count) }
  apply_runs(asked.runs, now, pieces)
  return concat(pieces)
end

-- Remove at most so many tasks, inputs and nodes each. Returns 0 once nothing of the shard is left.
local function erase(tags, args)
  find_tools()
  set_keys(tags[1])
  local limit = tonumber(args[1])
  local erased = call("LPOP", keys.submitted, limit) or {}
  for _, task in ipairs(erased) do
    call("UNLINK", key("heard", task), key("copies", task))
  end
  for _, input in ipairs(call("SPOP", keys.inputs, limit)) do
    erased[#erased + 1] = input
    call("UNLINK", key("input", input))
  end
  for _, node in ipairs(call("HRANDFIELD", keys.nodes, limit)) do
    erased[#erased + 1] = node
    call("HDEL", keys.nodes, node)
    for _, name in ipairs({ "stays", "queue", "order", "again", "claimed" }) do
      call("UNLINK", key(name, node))
    end
  end
  if #erased > 0 then
    return 1
  end
  for _, its_key in pairs(keys) do
    call("UNLINK", its_key)
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
    ["full outboxes"] = call("ZCARD", keys.full) + call("ZCARD", keys.given),
    ["attempts to ask after"] = call("ZCARD", keys.begun),
    ["attempts of tasks"] = 0,
    ["names of forgotten tasks"] = math.max(
      call("LLEN", keys.submitted) - 2 * call("HLEN", keys.tasks) - TRIM_TASKS, 0
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
  for _, packed in ipairs(call("HVALS", keys.tasks)) do
    add("attempts of tasks", count_attempts(unpack_task("", packed)))
  end
  for _, id in ipairs(call("HKEYS", keys.nodes)) do
    local held_below = "(" .. string.format("%.0f", QUEUED)
    add("tasks queued", call("ZCARD", key("queue", id)))
    add("tasks held", call("ZCOUNT", key("order", id), 0, held_below))
    add("tasks queued while held", call("HLEN", key("again", id)))
  end
  return pack(ends)
end

-- What a shard keeps, and when it reads and writes it.
--
-- One logical shard is one hash tag, so all its keys are on one server. Records are packed strings
-- in three hashes (tasks, specs, nodes). A call reads each record once, changes it in memory, and
-- writes the changed ones when all its operations have been applied; no other call comes between.
-- Other keys are written when a command has gathered the arguments of many operations.
--
--   {tag}            the shard's own numbers
--   {tag}tasks       task -> what changes about it (task_record); all about one that is done with
--   {tag}specs       task -> its TaskSpec, as it was submitted, unless its record has it
--   {tag}outputs     task -> its files as last committed, if they are many
--   {tag}submitted   list of tasks, in the order they were submitted in
--   {tag}heard:T     what task T heard of its parents, and where their files are, if that is long
--   {tag}copies:T    who holds files of task T, once that is not just the node that committed
--   {tag}input:F     who holds the workflow's input F; {tag}inputs has the names of all
--   {tag}full, given tasks with full outboxes, by the order they came in
--   {tag}begun       attempts, by the order they came in; {tag}begun_of has the task and the time
--   {tag}nodes       node -> its lease and its load (node_record)
--   {tag}leases      nodes, by the time at which a lease or a patrol's hold ends
--   {tag}stays:N     task -> entry and ticket of each task that node N holds or has queued
--   {tag}queue:N     queued tasks, by priority
--   {tag}order:N     held tasks, then queued ones, each by the order they came in
--   {tag}again:N     entry and ticket of each task that is queued while it is held
--   {tag}claimed:N   the answer to the node's last claim

local this_run -- the run id of this server process, asked for once
local prefix -- "{tag}"
local shard -- the shard's own numbers
local shard_as_read
local keys -- of what the shard has once, by name
local tasks, tasks_as_read -- records by id; false if there is none
local nodes, nodes_as_read
local specs -- as far as this call has read or written them, by task
local pending -- commands that this call has yet to call, one for each key, with their arguments

local function key(name, id)
  return prefix .. name .. ":" .. id
end

local KEYS_OF_A_SHARD = {
  "tasks", "specs", "outputs", "submitted", "inputs", "full", "given", "begun", "begun_of", "nodes",
  "leases",
}

local function set_keys(tag)
  prefix, keys = tag, {}
  for _, name in ipairs(KEYS_OF_A_SHARD) do
    keys[name] = prefix .. name
  end
end

-- Numbers that only grow: whatever must stay in the order it came in has one of them as its score.
local function next_place()
  shard.places = shard.places + 1
  return shard.places
end

local TICKETS = 2 ^ 40 -- of one epoch

-- A ticket that was never given out before, not even one that the shard forgot giving.
local function next_ticket()
  shard.tickets = shard.tickets + 1
  return shard.epoch * TICKETS + shard.tickets
end

local function run_of_this_server()
  this_run = this_run or string.match(call("INFO", "server"), "run_id:(%x+)")
  return this_run
end

-- The epoch grows whenever acknowledged writes may have been lost: if what is stored was written by
-- another run of a server, before a restart or a failover; or if the caller has seen a later epoch
-- than the stored one, or this epoch from another run. A shard that has nothing stored begins with
-- epoch 0, unless the caller has seen it before.
local function grow_epoch(seen_epoch, seen_run)
  local run = run_of_this_server()
  local has_seen_more = seen_epoch > shard.epoch
    or (seen_epoch == shard.epoch and seen_run ~= run)
  if shard.run ~= run or has_seen_more then
    shard.epoch = math.max(shard.epoch, seen_epoch) + 1
    shard.run = run
  end
end

-- ``counts`` has how many tasks are in each state.
local function pack_shard()
  local counts = shard.counts
  return pack(
    shard.shards, shard.epoch, shard.run, shard.now, shard.places, shard.tickets, shard.restored,
    shard.forgotten, shard.recounted_epoch, shard.recounted_restored, shard.recount_held_until,
    counts.waiting, counts.ready, counts["stage-in"], counts.running, counts["stage-out"],
    counts.complete, counts.failed, counts.removed
  )
end

local function unpack_shard(packed)
  local shards, epoch, run, now, places, tickets, restored, forgotten, recounted_epoch,
    recounted_restored, recount_held_until, waiting, ready, stage_in, running, stage_out, complete,
    failed, removed = unpack_all(packed)
  return {
    shards = shards, epoch = epoch, run = run, now = now, places = places, tickets = tickets,
    restored = restored, forgotten = forgotten, recounted_epoch = recounted_epoch,
    recounted_restored = recounted_restored, recount_held_until = recount_held_until,
    counts = {
      waiting = waiting, ready = ready, ["stage-in"] = stage_in, running = running,
      ["stage-out"] = stage_out, complete = complete, failed = failed, removed = removed,
    },
  }
end

local function read_shard(shards)
  shard_as_read = call("GET", prefix)
  if shard_as_read then
    shard = unpack_shard(shard_as_read)
    return
  end
  shard = {
    shards = shards, epoch = -1, run = "", now = 0, places = 0, tickets = 0, restored = 0,
    forgotten = 0, recounted_epoch = 0, recounted_restored = 0, recount_held_until = 0,
    counts = {
      waiting = 0, ready = 0, ["stage-in"] = 0, running = 0, ["stage-out"] = 0, complete = 0,
      failed = 0, removed = 0,
    },
  }
end

-- --- many at once --------------------------------------------------------------------------------

-- Have a command take these arguments after its key, a thousand at a time.
local function call_with(command, its_key, arguments)
  for first = 1, #arguments, ARGUMENTS_MAX do
    local last = math.min(first + ARGUMENTS_MAX - 1, #arguments)
    call(command, its_key, unpack(arguments, first, last))
  end
end

-- The values of many fields of a hash; false for each that is not there.
local function read_fields(hash, fields)
  if #fields > 0 and #fields <= ARGUMENTS_MAX then
    return call("HMGET", hash, unpack(fields))
  end
  local values = {}
  for first = 1, #fields, ARGUMENTS_MAX do
    local last = math.min(first + ARGUMENTS_MAX - 1, #fields)
    for _, value in ipairs(call("HMGET", hash, unpack(fields, first, last))) do
      values[#values + 1] = value
    end
  end
  return values
end

-- Write many fields of a hash, each before its value.
local function write_fields(hash, pairs_in_row)
  call_with("HSET", hash, pairs_in_row)
end

-- Call the command that waits for a key, if one does.
local function flush(its_key)
  local waiting = pending[its_key]
  if waiting then
    pending[its_key] = nil
    call_with(waiting.command, its_key, waiting)
  end
end

-- Call a command with these arguments later, together with others of its kind: when all operations
-- have been applied, or before another command is to change the key. Whoever reads it flushes first.
local function later(command, its_key, first, second)
  local waiting = pending[its_key]
  if not waiting or waiting.command ~= command then
    flush(its_key)
    waiting = { command = command }
    pending[its_key] = waiting
  end
  local count = #waiting
  waiting[count + 1], waiting[count + 2] = first, second
end

local function flush_all()
  for its_key in pairs(pending) do
    flush(its_key)
  end
end

local function first_member(set)
  flush(set)
  return call("ZRANGE", set, 0, 0)[1]
end

local function find_field(hash, field)
  flush(hash)
  return call("HGET", hash, field)
end

local function write_shard()
  local packed = pack_shard()
  if packed ~= shard_as_read then
    call("SET", prefix, packed)
  end
end

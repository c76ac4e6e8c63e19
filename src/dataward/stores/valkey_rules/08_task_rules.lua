-- A shard's rules about tasks (stores/task_rules.py): from submission to commit, and everything that
-- can go wrong. Each rule takes an operation and the time, and returns the packed answer, a long one
-- in several pieces.

local TRIM_TASKS = 1000 -- this many names of forgotten tasks may stay listed
local TRIM_AT_ONCE = 100 -- so many are dropped when a task is forgotten
local GENERATIONS = 2 ^ 20 -- of one epoch

local rules = {}

-- The fields of a Standing of what is no task: from ``preferred`` to ``placement``, then
-- ``children`` and ``holders``, all empty; packed once.
local nothing_known
local function of_no_task(id, state)
  nothing_known = nothing_known or pack("", 0, GUESS.seconds, INFINITY, "", false, false, 0, 0, {}, {})
  return pack("Standing", id, state, 0) .. nothing_known
end

local function unknown(task)
  return array_start(19) .. of_no_task(task, "waiting") .. pack({}, {}, {}, true)
end

local function refused(task, reason, state)
  return answer("Refused", task, reason, state)
end

local function standing(record, granted, files, wants_children)
  local id, state, generation = record.id, record.state, record.generation
  local is_in_vain, placement = IN_VAIN[state], record.placement or 0
  local is_long = is_in_vain or files or wants_children
  local usual = array_start(files and 18 or is_long and 15 or 13) .. "\168Standing"
    .. (starts[#id] or long_start(#id)) .. id .. starts[#state] .. state
    .. (numbers[generation] or pack(generation)) .. record.about .. (granted and TRUE or FALSE)
    .. ((record.backups or 0) < record.backups_max and TRUE or FALSE)
    .. packed_number(count_attempts(record)) .. (numbers[placement] or pack(placement))
  if not is_long then
    return usual
  end
  local children, inputs = parts_of_spec(record)
  local names = ((is_in_vain or wants_children) and children or EMPTY_ARRAY)
    .. pack(state == "removed" and holders_of(record) or {})
  if not files then
    return usual .. names
  end
  local _, input_copies = all_heard(record)
  return usual, names, pack(known_copies(record)), inputs .. input_copies
end

-- The only place where a task fails or is removed, which nothing takes back.
local function end_in_vain(record, final, now)
  move(record, final)
  -- Otherwise a late `Delivered` for the previous end would clear this outbox.
  record.generation = record.generation + 1
  end_all_attempts(record)
  forget_contents_of_inputs(record)
  fill_outbox(record, now)
end

-- Recompute the state from the remaining attempts.
local function settle(record, now)
  settle_record(record)
  if record.state == "waiting" then
    empty_outbox(record) -- whoever sends the last notice will queue the task
    if record.failed_parent then
      end_in_vain(record, "failed", now)
    elseif record.removed_parent then
      end_in_vain(record, "removed", now)
    end
  end
end

-- Put a task that is ready again in the outbox, until some node says it is in a queue.
local function see_it_placed(record, now)
  if record.state == "ready" and not is_in_outbox(record) then
    record.placement = (record.placement or 0) + 1
    fill_outbox(record, now)
  end
end

-- --- tasks: from submission to commit ------------------------------------------------------------

function rules.Submit(op)
  local record = find_task(op.task)
  if not record then
    record = new_task(op)
    tasks[op.task] = record
    specs[op.task] = op.spec
    later("HSET", keys.specs, op.task, op.spec)
    shard.counts.waiting = shard.counts.waiting + 1
    later("RPUSH", keys.submitted, op.task)
    if op.again then
      shard.restored = shard.restored + 1
    end
    settle_record(record)
  end
  return standing(record)
end

-- End attempts of the node's earlier incarnations: those no longer run.
local function forget_past_incarnations(record, node, incarnation)
  for _, attempt in pairs(attempts_of(record)) do
    if attempt[1] == node and attempt[2] < incarnation then
      fence(record, node, incarnation - 1)
      return
    end
  end
end

local function why_not_begin(record, op, incarnation)
  if FINAL[record.state] then
    return "finished"
  end
  if record.waiting_for > 0 then
    return "waiting"
  end
  local why = why_void(record, op.node, op.attempt)
  if why then
    return why
  end
  if count_attempts(record) > 0 then
    forget_past_incarnations(record, op.node, incarnation)
    if has_attempt_of(record, op.node) then
      return "under way here"
    end
    if count_attempts(record) > math.max(record.backups_max, 0) then
      return "enough replicas"
    end
  end
end

local function note_begun(attempt, task)
  later("ZADD", keys.begun, next_place(), attempt)
  later("HSET", keys.begun_of, attempt, packed_string(task) .. packed_now)
end

local function forget_begun(attempt)
  later("ZREM", keys.begun, attempt)
  later("HDEL", keys.begun_of, attempt)
end

function rules.Begin(op, now)
  local record = find_task(op.task)
  if not record then
    return refused(op.task, "unknown", "waiting")
  end
  if not find_attempt(record, op.attempt) then
    local incarnation = incarnation_of(op.attempt)
    local why = why_not_begin(record, op, incarnation)
    if why then
      return refused(op.task, why, record.state)
    end
    add_attempt(record, op.attempt, op.node, incarnation)
    hold(record, op.node)
    note_begun(op.attempt, op.task)
    empty_outbox(record) -- the node that begins it took it from a queue
  end
  local notices, copies = all_heard(record)
  return array_start(5) .. "\165Begun", packed_spec(op.task),
    packed_number(record.generation + 1) .. copies, notices
end

function rules.Advance(op)
  local record = find_task(op.task)
  if not record then
    return unknown(op.task)
  end
  local attempt = find_attempt(record, op.attempt)
  if attempt and (PROGRESS[op.state] or 0) > PROGRESS[attempt[3]] then
    attempt[3] = op.state
    settle_record(record)
  end
  return standing(record)
end

-- The only place where a task becomes complete; returns where its outputs are. `Reopen` takes it
-- back. The states that the attempt passed through are not noted, as there is no history, nor whether
-- it was recalled, which no answer tells.
local function complete(record, op, children, outputs, now)
  hear_of_all_parents(record) -- it ran, so they had finished, even if that was forgotten
  move(record, "complete")
  -- Never a number given before, not even one the shard forgot: children may require more.
  record.generation = math.max(record.generation, shard.epoch * GENERATIONS) + 1
  record.winner = op.attempt
  forget_begun(op.attempt)
  end_all_attempts(record)
  forget_contents_of_inputs(record)
  local copies = keep_outputs(record, op, unpack_all(outputs))
  if children ~= EMPTY_ARRAY then
    fill_outbox(record, now)
  else
    empty_outbox(record)
  end
  return copies
end

-- The other nodes that may have the task.
local function packed_rivals(record, winner)
  if record.holders == packed_string(winner) then
    return EMPTY_ARRAY
  end
  local rivals = {}
  for _, node in ipairs(holders_of(record)) do
    if node ~= winner then
      rivals[#rivals + 1] = packed_string(node)
    end
  end
  return packed_array(rivals)
end

function rules.Commit(op, now)
  local record = find_task(op.task)
  if not record then
    return refused(op.task, "unknown", "waiting")
  end
  local children, _, outputs = parts_of_spec(record)
  local copies
  if record.winner ~= op.attempt then
    if FINAL[record.state] then
      return refused(op.task, "finished", record.state)
    end
    local why = why_void(record, op.node, op.attempt)
    if why then
      return refused(op.task, why, record.state)
    end
    if op.generation <= record.generation then
      return refused(op.task, "outdated", record.state)
    end
    copies = complete(record, op, children, outputs, now)
  end
  return array_start(6) .. "\169Committed" .. packed_string(op.task)
    .. packed_number(record.generation) .. children
    .. (copies or pack(known_copies(record))) .. packed_rivals(record, op.node)
end

local function fail_attempt(record, op, now)
  end_attempt(record, op.attempt)
  record.failures = record.failures or {}
  local earlier = 0
  for _ in pairs(record.failures) do
    earlier = earlier + 1
  end
  local is_final = earlier >= retries_of(record)
  record.failures[op.attempt] = is_final
  if is_final then
    record.failed_parent = nil
    end_in_vain(record, "failed", now)
  else
    settle(record, now)
  end
end

function rules.Fail(op, now)
  local record = find_task(op.task)
  if not record then
    return refused(op.task, "unknown", "waiting")
  end
  if not record.failures or record.failures[op.attempt] == nil then
    if FINAL[record.state] then
      return refused(op.task, "finished", record.state)
    end
    if not find_attempt(record, op.attempt) then
      return refused(op.task, "fenced", record.state)
    end
    fail_attempt(record, op, now)
  end
  local is_final = record.failures[op.attempt]
  return array_start(6)
    .. pack("Failing", op.task, is_final)
    .. (is_final and children_of(record) or EMPTY_ARRAY)
    .. pack(record.generation, is_final and holders_of(record) or {})
end

function rules.Release(op, now)
  local record = find_task(op.task)
  if not record then
    return unknown(op.task)
  end
  if end_attempt(record, op.attempt) then
    settle(record, now)
    if not op.keep then
      see_it_placed(record, now)
    end
  end
  return standing(record)
end

local function remove_unless_final(record, now)
  if FINAL[record.state] then
    return
  end
  if record.state ~= "waiting" then
    hold(record, preferred_of(record)) -- where the task waits, unless a rule sent it away
  end
  end_in_vain(record, "removed", now)
end

function rules.Remove(op, now)
  local record = find_task(op.task)
  if not record then
    return unknown(op.task)
  end
  remove_unless_final(record, now)
  return standing(record, record.state == "removed")
end

-- --- tasks: telling children ---------------------------------------------------------------------

-- Fail with the parent, unless an attempt is under way: that one may yet succeed.
local function heed_failure(record, op, now)
  if not IN_VAIN[record.state] then
    record.failed_parent = record.failed_parent or op.parent
  end
  if record.state == "waiting" or record.state == "ready" then
    end_in_vain(record, "failed", now)
  end
  return standing(record, record.state == "failed" and record.failed_parent == op.parent)
end

-- Be removed with the parent, unless the task is complete: then if it has to wait again.
local function heed_removal(record, op, now)
  if not IN_VAIN[record.state] then
    record.removed_parent = record.removed_parent or op.parent
  end
  remove_unless_final(record, now)
  return standing(record, record.state == "removed" and record.removed_parent == op.parent)
end

function rules.Notify(op, now)
  local record = find_task(op.task)
  if not record then
    return unknown(op.task)
  end
  if op.failed then
    return heed_failure(record, op, now)
  end
  if op.removed then
    return heed_removal(record, op, now)
  end
  local known, required = known_and_required(record, op.parent)
  if op.generation >= known then
    hear(record, op.parent, op.generation > known and op.generation or 0, op.copies or NONE)
    if FINAL[record.state] then
      forget_contents_of_inputs(record)
    end
  end
  if op.generation > known then
    if known < required and required <= op.generation then
      assert(record.waiting_for > 0, op.task .. " was told by " .. op.parent .. ", no parent")
      record.waiting_for = record.waiting_for - 1
    end
    settle_record(record)
  end
  return standing(record)
end

function rules.Delivered(op)
  local record = find_task(op.task)
  if not record then
    return unknown(op.task)
  end
  local expected = FINAL[record.state] and 0 or record.placement or 0
  if record.generation == op.generation and op.placement == expected then
    empty_outbox(record)
  end
  return standing(record)
end

local function task_count()
  local count = 0
  for _, in_state in pairs(shard.counts) do
    count = count + in_state
  end
  return count
end

-- Drop forgotten names from the front of the list, some at once. That is enough: tasks are
-- forgotten in about the order they were submitted in.
local function trim_submitted()
  local submitted = keys.submitted
  flush(submitted)
  local listed = call("LLEN", submitted)
  if listed <= TRIM_TASKS or listed <= 2 * task_count() + TRIM_TASKS then
    return
  end
  for _ = 1, TRIM_AT_ONCE do
    local front = call("LINDEX", submitted, 0)
    if not front or find_task(front) then
      return
    end
    call("LPOP", submitted)
    shard.forgotten = shard.forgotten + 1
  end
end

function rules.Forget(op)
  local record = find_task(op.task)
  if not record then
    return unknown(op.task)
  end
  if not FINAL[record.state] then
    return standing(record)
  end
  empty_outbox(record)
  shard.counts[record.state] = shard.counts[record.state] - 1
  tasks[op.task], specs[op.task] = false, nil
  later("HDEL", keys.specs, op.task)
  later("HDEL", keys.outputs, op.task)
  if record.is_heard_apart or record.is_spread then
    call("DEL", key("heard", op.task), key("copies", op.task))
  end
  trim_submitted()
  return unknown(op.task)
end

-- --- tasks: replicas, lost data ------------------------------------------------------------------

function rules.Replicate(op)
  local record = find_task(op.task)
  if not record then
    return unknown(op.task)
  end
  local may_have
  if op.spare then
    may_have = count_attempts(record) == 1 and not has_attempt_of(record, op.node)
      and record.backups_max > 0
  else
    may_have = not is_listed(holders_of(record), op.node)
      and (record.backups or 0) < record.backups_max
  end
  local granted = may_have and not FINAL[record.state]
  if granted then
    hold(record, op.source)
    hold(record, op.node)
    if not op.spare then
      record.backups = (record.backups or 0) + 1
    end
  end
  return standing(record, granted)
end

function rules.Reopen(op, now)
  local record = find_task(op.task)
  if not record then
    return unknown(op.task)
  end
  local is_it = 0 < op.generation
    and op.generation == record.generation
    and not IN_VAIN[record.state]
  if is_it and record.state == "complete" then
    record.winner = nil
    clear_copies(record)
    record.holders = ""
    record.backups = nil
    empty_outbox(record)
    move(record, "ready")
    settle(record, now)
    see_it_placed(record, now)
  end
  return standing(record, is_it, true)
end

function rules.Postpone(op, now)
  local record = find_task(op.task)
  if not record then
    return unknown(op.task)
  end
  end_attempt(record, op.attempt)
  local known, required = known_and_required(record, op.parent)
  if op.generation >= required and not FINAL[record.state] then
    require_generation(record, op.parent, op.generation + 1)
    if required <= known and known <= op.generation then
      record.waiting_for = record.waiting_for + 1
    end
  end
  settle(record, now)
  see_it_placed(record, now)
  local has_failed = record.state == "failed" and record.failed_parent ~= nil
  local was_removed = record.state == "removed" and record.removed_parent ~= nil
  return standing(record, has_failed or was_removed)
end

-- The standing of a task or a workflow's input. Places of files are left out unless asked for: a
-- popular file is at every node.
local function about(owner, files, children)
  local record = find_task(owner)
  if record then
    return standing(record, false, files, children)
  end
  local input = key("input", owner)
  if call("EXISTS", input) == 0 then
    return unknown(owner)
  end
  local copies = {}
  for _, file in ipairs(files and read_copies(input) or {}) do
    for _, node in ipairs(file.nodes) do
      copies[#copies + 1] = { file.name, node }
    end
  end
  return array_start(16) .. of_no_task(owner, "complete") .. pack(copies)
end

function rules.AddCopies(op)
  local record = find_task(op.task)
  if record then
    spread_copies(record)
    add_copies(key("copies", op.task), op.copies)
  else
    local input = key("input", op.task)
    local added = add_copies(input, op.copies)
    if call("HINCRBY", input, "count", added) == added then
      call("SADD", keys.inputs, op.task)
    end
  end
  return about(op.task, false)
end

function rules.DropCopies(op)
  local record = find_task(op.task)
  if record then
    spread_copies(record)
    drop_copies(key("copies", op.task), op.copies)
  else
    local input = key("input", op.task)
    local dropped = drop_copies(input, op.copies)
    if call("HINCRBY", input, "count", 0 - dropped) == 0 then
      call("DEL", input)
      call("SREM", keys.inputs, op.task)
    end
  end
  return about(op.task, false)
end

function rules.Look(op)
  return about(op.task, true, op.children)
end

-- The unfinished tasks of one page. A page may be short: only the cursor -1 is the end.
function rules.Recount(op)
  local submitted = keys.submitted
  flush(submitted)
  local last = shard.forgotten + call("LLEN", submitted)
  local start = math.max(op.cursor, shard.forgotten)
  local stop = math.min(start + op.limit, last)
  local found = {}
  if stop > start then
    local first = start - shard.forgotten
    for _, id in ipairs(call("LRANGE", submitted, first, stop - shard.forgotten - 1)) do
      local record = find_task(id)
      if record and not FINAL[record.state] then
        local entries = {}
        for parent, generation in pairs(missing(record)) do
          entries[#entries + 1] = packed_string(parent) .. packed_number(generation)
        end
        found[#found + 1] = array_start(2) .. packed_string(id) .. packed_map(entries)
      end
    end
  end
  local cursor = stop < last and stop or -1
  return array_start(4) .. pack("Page", op.shard) .. packed_array(found) .. pack(cursor)
end

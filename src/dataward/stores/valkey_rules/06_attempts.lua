-- The attempts at a task, the nodes that may have it, and how its state follows from them.

local function attempts_of(record)
  if not record.attempts then
    record.attempts = record.packed_attempts and unpack_attempts(record.packed_attempts) or {}
  end
  return record.attempts
end

local function find_attempt(record, name)
  local has_any = record.attempts or record.packed_attempts
  return has_any and attempts_of(record)[name]
end

local function end_all_attempts(record)
  record.attempts, record.packed_attempts = nil, nil
end

-- The nodes that may have the task, in the order they came in.
local function holders_of(record)
  return { unpack_all(record.holders) }
end

local function hold(record, node)
  if not (may_have(record.holders, node) and is_listed(holders_of(record), node)) then
    record.holders = record.holders .. packed_string(node)
  end
end

local function void(record, node, before)
  record.void_before = record.void_before or {}
  local known = record.void_before[node]
  if known == nil or is_before(known, before) then
    record.void_before[node] = before
  end
end

-- End the attempts of this and earlier incarnations of a node; none may act any more.
local function fence(record, node, incarnation)
  void(record, node, { incarnation + 1, 0 })
  local attempts = attempts_of(record)
  for name, attempt in pairs(attempts) do
    if attempt[1] == node and attempt[2] <= incarnation then
      attempts[name] = nil
    end
  end
end

-- Whether the attempt was on the list; it is taken off for good.
local function end_attempt(record, attempt)
  local node, incarnation, count = parts_of(attempt)
  void(record, node, { incarnation, count + 1 })
  local attempts = attempts_of(record)
  local was_listed = attempts[attempt] ~= nil
  attempts[attempt] = nil
  return was_listed
end

local function why_void(record, node, attempt)
  local first = record.void_before and record.void_before[node]
  if first == nil then
    return nil
  end
  local _, incarnation, count = parts_of(attempt)
  if not is_before({ incarnation, count }, first) then
    return nil
  end
  return incarnation < first[1] and "fenced" or "over"
end

local function count_attempts(record)
  if not record.attempts and not record.packed_attempts then
    return 0
  end
  local count = 0
  for _ in pairs(attempts_of(record)) do
    count = count + 1
  end
  return count
end

local function has_attempt_of(record, node)
  for _, attempt in pairs(attempts_of(record)) do
    if attempt[1] == node then
      return true
    end
  end
  return false
end

-- Change the state, and the shard's counts with it.
local function move(record, to)
  if to == record.state then
    return
  end
  local counts = shard.counts
  counts[record.state] = counts[record.state] - 1
  counts[to] = counts[to] + 1
  record.state = to
end

-- Move to the state that attempts and notices imply, unless the task is finished.
local function settle_record(record)
  if FINAL[record.state] then
    return
  end
  local furthest
  if count_attempts(record) > 0 then
    for _, attempt in pairs(record.attempts) do
      if not furthest or PROGRESS[attempt[3]] > PROGRESS[furthest] then
        furthest = attempt[3]
      end
    end
  end
  move(record, furthest or (record.waiting_for > 0 and "waiting" or "ready"))
end

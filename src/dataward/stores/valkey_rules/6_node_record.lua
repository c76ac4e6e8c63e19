-- What a shard keeps about one node (stores/node_record.py): its lease, its queue, and the tasks it
-- holds. The record has the node's numbers and how many tasks it holds and has queued; the tasks
-- themselves are in {tag}stays:N and beside it.
--
-- A queue is a sorted set, so it has no outdated entries: a task that is queued again replaces its
-- entry. Tasks of equal priority come by id, as `QueueEntry` sorts them.

-- Added to the places of queued tasks in {tag}order:N, so that held tasks come first.
local QUEUED = 2 ^ 52

local function pack_node(node)
  return pack(
    node.incarnation, node.lease_until, node.lease_seconds, node.load_seconds, node.seized,
    node.held, node.queued, node.again, node.queued_seconds, node.last_request,
    node.patrolled_until, node.listed_until
  )
end

local function set_keys(node)
  node.stays_key, node.order_key = key("stays", node.id), key("order", node.id)
  node.queue_key, node.again_key = key("queue", node.id), key("again", node.id)
  return node
end

local function unpack_node(id, packed)
  local incarnation, lease_until, lease_seconds, load_seconds, seized, held, queued, again,
    queued_seconds, last_request, patrolled_until, listed_until = unpack_all(packed)
  return set_keys({
    id = id, incarnation = incarnation, lease_until = lease_until,
    lease_seconds = lease_seconds, load_seconds = load_seconds, seized = seized, held = held,
    queued = queued, again = again, queued_seconds = queued_seconds, last_request = last_request,
    patrolled_until = patrolled_until, listed_until = listed_until,
  })
end

local function find_node(id)
  local node = nodes[id]
  if node == nil then
    local packed = call("HGET", key("nodes"), id)
    node = packed and unpack_node(id, packed)
    nodes[id], nodes_as_read[id] = node, packed
  end
  return node
end

local function node_of_id(id)
  local node = find_node(id)
  if not node then
    node = set_keys({
      id = id, incarnation = -1, lease_until = -INFINITY, lease_seconds = 0, load_seconds = 0,
      seized = false, held = 0, queued = 0, again = 0, queued_seconds = 0,
      last_request = { -1, -1 }, patrolled_until = -INFINITY, listed_until = INFINITY,
    })
    nodes[id] = node
  end
  return node
end

local function is_current(node, incarnation)
  return incarnation == node.incarnation and not node.seized
end

local function membership(node, now, incarnation)
  return answer(
    "Membership", node.id,
    incarnation == nil or is_current(node, incarnation),
    now <= node.lease_until and not node.seized,
    node.incarnation, node.queued, node.load_seconds + node.queued_seconds, shard.epoch,
    node.load_seconds
  )
end

-- --- one stay of a task at a node ----------------------------------------------------------------

local function unpack_stay(packed)
  if not packed then
    return nil
  end
  local ticket, is_held, entry, place = unpack_all(packed)
  return { ticket = ticket, is_held = is_held, entry = entry, task = entry[2], place = place }
end

local function find_stay(node, task)
  return unpack_stay(call("HGET", node.stays_key, task))
end

local function find_again(node, task)
  return node.again > 0 and unpack_stay(call("HGET", node.again_key, task))
end

local function put_again(node, task, ticket, entry, place)
  node.again = node.again + call("HSET", node.again_key, task, pack(ticket, false, entry, place))
end

local function drop_again(node, task)
  node.again = node.again - call("HDEL", node.again_key, task)
end

local function pack_stay(stay, is_held)
  return pack(stay.ticket, is_held, stay.entry)
end

local function put_in_order(node, stay, is_held)
  call("ZADD", node.order_key, (is_held and 0 or QUEUED) + next_place(), stay.task)
end

local function put_stay(node, stay, is_held)
  call("HSET", node.stays_key, stay.task, pack_stay(stay, is_held))
  put_in_order(node, stay, is_held)
end

local function take_stay(node, task)
  call("HDEL", node.stays_key, task)
  call("ZREM", node.order_key, task)
end

-- A stay that is not held has just been written.
local function put_in_queue(node, stay)
  put_in_order(node, stay, false)
  call("ZADD", node.queue_key, stay.entry[1], stay.task)
  node.queued = node.queued + 1
  node.queued_seconds = node.queued_seconds + stay.entry[4]
end

local function count_out_of_queue(node, stay)
  node.queued = node.queued - 1
  node.queued_seconds = node.queued > 0 and node.queued_seconds - stay.entry[4] or 0
end

local function unqueue(node, stay)
  take_stay(node, stay.task)
  call("ZREM", node.queue_key, stay.task)
  count_out_of_queue(node, stay)
end

-- Queue a task. If it is queued already, the new ticket replaces the old one.
local function enqueue(node, entry, ticket)
  local stay = { entry = entry, ticket = ticket, task = entry[2] }
  local packed = pack_stay(stay, false)
  if call("HSETNX", node.stays_key, stay.task, packed) == 1 then
    put_in_queue(node, stay) -- as most often
    return
  end
  local known = find_stay(node, stay.task)
  if known.is_held then
    local again = find_again(node, stay.task)
    local place = again and again.place or next_place()
    put_again(node, stay.task, ticket, entry, place)
    return
  end
  unqueue(node, known)
  call("HSET", node.stays_key, stay.task, packed)
  put_in_queue(node, stay)
end

-- The most urgent queued tasks, now held.
local function claim(node, limit)
  local stays = {}
  if limit <= 0 or node.queued == 0 then
    return stays
  end
  local popped, names = call("ZPOPMIN", node.queue_key, limit), {}
  for i = 1, #popped, 2 do
    names[#names + 1] = popped[i]
  end
  for i, packed in ipairs(read_fields(node.stays_key, names)) do
    local stay = unpack_stay(packed)
    count_out_of_queue(node, stay)
    put_stay(node, stay, true)
    stays[i] = stay
  end
  node.held = node.held + #stays
  return stays
end

local function release(node, task)
  take_stay(node, task)
  node.held = node.held - 1
  local again = find_again(node, task)
  if again then
    drop_again(node, task)
    enqueue(node, again.entry, again.ticket)
  end
end

-- End the stay with this ticket, or with ticket -1 every stay of the task.
local function let_go(node, task, ticket)
  local stay = find_stay(node, task)
  if not stay then
    return
  end
  local function is_meant(each)
    return ticket == each.ticket or ticket == -1
  end
  if not stay.is_held then
    if is_meant(stay) then
      unqueue(node, stay)
    end
    return
  end
  local again = find_again(node, task)
  if again and is_meant(again) then
    drop_again(node, task)
  end
  if is_meant(stay) then
    release(node, task)
  end
end

-- The first ``limit`` stays of one kind, in order.
local function stays_between(node, from, to, limit)
  local names = call("ZRANGEBYSCORE", node.order_key, from, to, "LIMIT", 0, limit)
  local stays = {}
  for i, task in ipairs(names) do
    stays[i] = find_stay(node, task)
  end
  return stays
end

local function held_stays(node, limit)
  return stays_between(node, 0, "(" .. string.format("%.0f", QUEUED), limit)
end

local function queued_stays(node, limit)
  return stays_between(node, QUEUED, "+inf", limit)
end

local function again_stays(node)
  local found, stays = call("HVALS", node.again_key), {}
  for i, packed in ipairs(found) do
    stays[i] = unpack_stay(packed)
  end
  table.sort(stays, function(one, other) return one.place < other.place end)
  return stays
end

-- The first ``limit`` stays that are orphaned if this node is dead: held, then again, then queued.
local function first_stays(node, limit)
  local stays = held_stays(node, limit)
  for _, more in ipairs({ again_stays, queued_stays }) do
    for _, stay in ipairs(#stays < limit and more(node, limit) or {}) do
      if #stays < limit then
        stays[#stays + 1] = stay
      end
    end
  end
  return stays
end

-- Hold these tasks only; other tasks held so far are queued again.
local function hold_only(node, entries)
  for _, stay in ipairs(held_stays(node, -1)) do
    release(node, stay.task)
    if not find_stay(node, stay.task) then -- if it was in again:N, that newer ticket counts
      enqueue(node, stay.entry, stay.ticket)
    end
  end
  for _, stay in ipairs(entries) do
    local kept = find_stay(node, stay.task)
    if kept then
      unqueue(node, kept)
      stay = kept
    end
    put_stay(node, stay, true)
    node.held = node.held + 1
  end
end

-- Come back; the tasks that the last incarnation held are queued again.
local function rejoin(node, incarnation, lease_seconds, now)
  if incarnation == node.incarnation and node.seized then
    return -- a repeated Join of an incarnation whose tasks are being taken over
  end
  if incarnation ~= node.incarnation then
    node.incarnation = incarnation
    node.seized = false
    node.patrolled_until = -INFINITY
    node.load_seconds = 0
    hold_only(node, {})
  end
  node.lease_seconds = lease_seconds
  node.lease_until = now + lease_seconds
end

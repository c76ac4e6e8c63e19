-- What a shard keeps about one node (stores/node_record.py): its lease, its queue, and the tasks it
-- holds. The record has the node's numbers and how many tasks it holds and has queued; the tasks
-- themselves are in {tag}stays:N and beside it.
--
-- A queue is a sorted set, so it has no outdated entries: a task that is queued again replaces its
-- entry. Tasks of equal priority come by id, as `QueueEntry` sorts them.

-- Added to the places of queued tasks in {tag}order:N, so that held tasks come first.
local QUEUED = 2 ^ 52

local find_node, node_of_id, is_current, membership, new_stays, read_stays, enqueue, claim, let_go
local held_stays, first_stays, hold_only, rejoin, write_nodes
do

local function pack_node(node)
  return pack(
    node.incarnation, node.lease_until, node.lease_seconds, node.load_seconds, node.seized,
    node.held, node.queued, node.again, node.queued_seconds, node.last_request,
    node.patrolled_until, node.listed_until
  )
end

-- What is not in the record: keys, and the stays that this call knows, false for each that is not there.
local function prepare(node)
  node.stays_key, node.order_key = key("stays", node.id), key("order", node.id)
  node.queue_key, node.again_key = key("queue", node.id), key("again", node.id)
  node.stays, node.changed_stays = {}, {}
  return node
end

local function unpack_node(id, packed)
  local incarnation, lease_until, lease_seconds, load_seconds, seized, held, queued, again,
    queued_seconds, last_request, patrolled_until, listed_until = unpack_all(packed)
  return prepare({
    id = id, incarnation = incarnation, lease_until = lease_until,
    lease_seconds = lease_seconds, load_seconds = load_seconds, seized = seized, held = held,
    queued = queued, again = again, queued_seconds = queued_seconds, last_request = last_request,
    patrolled_until = patrolled_until, listed_until = listed_until,
  })
end

function find_node(id)
  local node = nodes[id]
  if node == nil then
    local packed = call("HGET", keys.nodes, id)
    node = packed and unpack_node(id, packed)
    nodes[id], nodes_as_read[id] = node, packed
  end
  return node
end

function node_of_id(id)
  local node = find_node(id)
  if not node then
    node = prepare({
      id = id, incarnation = -1, lease_until = -INFINITY, lease_seconds = 0, load_seconds = 0,
      seized = false, held = 0, queued = 0, again = 0, queued_seconds = 0,
      last_request = { -1, -1 }, patrolled_until = -INFINITY, listed_until = INFINITY,
    })
    nodes[id] = node
  end
  return node
end

function is_current(node, incarnation)
  return incarnation == node.incarnation and not node.seized
end

function membership(node, now, incarnation)
  local id, queued, load = node.id, node.queued, node.load_seconds + node.queued_seconds
  return array_start(9) .. "\170Membership" .. (starts[#id] or long_start(#id)) .. id
    .. ((incarnation == nil or is_current(node, incarnation)) and TRUE or FALSE)
    .. (now <= node.lease_until and not node.seized and TRUE or FALSE)
    .. packed_number(node.incarnation) .. (numbers[queued] or pack(queued))
    .. (numbers[load] or pack(load)) .. packed_number(shard.epoch)
    .. packed_number(node.load_seconds)
end

-- --- one stay of a task at a node ----------------------------------------------------------------
-- ``entry`` is the `QueueEntry`, packed as it came; ``seconds`` and ``priority`` are two of its fields.

local function pack_stay(stay)
  return packed_number(stay.ticket) .. packed_flag(stay.is_held) .. packed_number(stay.seconds)
    .. packed_string(stay.entry)
end

local function unpack_stay(task, packed)
  if not packed then
    return false
  end
  local ticket, is_held, seconds, entry, place = unpack_all(packed)
  return {
    task = task, ticket = ticket, is_held = is_held, seconds = seconds, entry = entry,
    place = place,
  }
end

-- The stays of entries, each with a new ticket. Of an entry come task, priority, seconds, then itself.
function new_stays(entries)
  local stays = {}
  for i = 1, #entries, 4 do
    stays[#stays + 1] = {
      task = entries[i], priority = entries[i + 1], seconds = entries[i + 2],
      entry = entries[i + 3], ticket = next_ticket(),
    }
  end
  return stays
end

local function priority_of(stay)
  return stay.priority or unpack_all(stay.entry)[1]
end

function read_stays(node, names)
  local unread = {}
  for _, task in ipairs(names) do
    if node.stays[task] == nil then
      unread[#unread + 1] = task
    end
  end
  for i, packed in ipairs(read_fields(node.stays_key, unread)) do
    node.stays[unread[i]] = unpack_stay(unread[i], packed)
  end
end

local function find_stay(node, task)
  if node.stays[task] == nil then
    read_stays(node, { task })
  end
  return node.stays[task]
end

local function write_stays(node)
  local written, dropped = {}, {}
  for task in pairs(node.changed_stays) do
    local stay = node.stays[task]
    if stay then
      written[#written + 1] = task
      written[#written + 1] = pack_stay(stay)
    else
      dropped[#dropped + 1] = task
    end
  end
  call_with("HSET", node.stays_key, written)
  call_with("HDEL", node.stays_key, dropped)
end

local function find_again(node, task)
  return node.again > 0 and unpack_stay(task, call("HGET", node.again_key, task))
end

local function put_again(node, stay, place)
  local packed = pack_stay(stay) .. packed_number(place)
  node.again = node.again + call("HSET", node.again_key, stay.task, packed)
end

local function drop_again(node, task)
  node.again = node.again - call("HDEL", node.again_key, task)
end

local function put_stay(node, stay, is_held)
  stay.is_held = is_held
  node.stays[stay.task], node.changed_stays[stay.task] = stay, true
  later("ZADD", node.order_key, (is_held and 0 or QUEUED) + next_place(), stay.task)
end

local function take_stay(node, task)
  node.stays[task], node.changed_stays[task] = false, true
  later("ZREM", node.order_key, task)
end

local function put_in_queue(node, stay)
  put_stay(node, stay, false)
  later("ZADD", node.queue_key, priority_of(stay), stay.task)
  node.queued = node.queued + 1
  node.queued_seconds = node.queued_seconds + stay.seconds
end

local function count_out_of_queue(node, stay)
  node.queued = node.queued - 1
  node.queued_seconds = node.queued > 0 and node.queued_seconds - stay.seconds or 0
end

local function unqueue(node, stay)
  take_stay(node, stay.task)
  later("ZREM", node.queue_key, stay.task)
  count_out_of_queue(node, stay)
end

-- Queue a task. If it is queued already, the new ticket replaces the old one.
function enqueue(node, stay)
  local known = find_stay(node, stay.task)
  if known and known.is_held then
    local again = find_again(node, stay.task)
    put_again(node, stay, again and again.place or next_place())
    return
  end
  if known then
    unqueue(node, known)
  end
  put_in_queue(node, stay)
end

-- The most urgent queued tasks, now held.
function claim(node, limit)
  local stays = {}
  if limit <= 0 or node.queued == 0 then
    return stays
  end
  flush(node.queue_key)
  local popped, names = call("ZPOPMIN", node.queue_key, limit), {}
  for i = 1, #popped, 2 do
    names[#names + 1] = popped[i]
  end
  read_stays(node, names)
  for i, task in ipairs(names) do
    local stay = find_stay(node, task)
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
    enqueue(node, again)
  end
end

-- End the stay with this ticket, or with ticket -1 every stay of the task.
function let_go(node, task, ticket)
  local stay = find_stay(node, task)
  if not stay then
    return
  end
  local is_meant = ticket == stay.ticket or ticket == -1
  if not stay.is_held then
    if is_meant then
      unqueue(node, stay)
    end
    return
  end
  local again = find_again(node, task)
  if again and (ticket == again.ticket or ticket == -1) then
    drop_again(node, task)
  end
  if is_meant then
    release(node, task)
  end
end

-- The first ``limit`` stays of one kind, in order.
local function stays_between(node, from, to, limit)
  flush(node.order_key)
  local names = call("ZRANGEBYSCORE", node.order_key, from, to, "LIMIT", 0, limit)
  read_stays(node, names)
  local stays = {}
  for i, task in ipairs(names) do
    stays[i] = find_stay(node, task)
  end
  return stays
end

function held_stays(node, limit)
  return stays_between(node, 0, "(" .. string.format("%.0f", QUEUED), limit)
end

local function queued_stays(node, limit)
  return stays_between(node, QUEUED, "+inf", limit)
end

local function again_stays(node)
  local found, stays = call("HGETALL", node.again_key), {}
  for i = 1, #found, 2 do
    stays[#stays + 1] = unpack_stay(found[i], found[i + 1])
  end
  table.sort(stays, function(one, other) return one.place < other.place end)
  return stays
end

-- The first ``limit`` stays that are orphaned if this node is dead: held, then again, then queued.
function first_stays(node, limit)
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
function hold_only(node, wanted)
  for _, stay in ipairs(held_stays(node, -1)) do
    release(node, stay.task)
    if not find_stay(node, stay.task) then -- if it was in again:N, that newer ticket counts
      enqueue(node, stay)
    end
  end
  for _, stay in ipairs(wanted) do
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
function rejoin(node, incarnation, lease_seconds, now)
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

function write_nodes()
  local written = {}
  for id, node in pairs(nodes) do
    local packed = node and pack_node(node)
    if packed and packed ~= nodes_as_read[id] then
      written[#written + 1] = id
      written[#written + 1] = packed
    end
    if node then
      write_stays(node)
    end
  end
  call_with("HSET", keys.nodes, written)
end

end

#include "server/store/shared_change.h"

#include <algorithm>

namespace ibid::serve {
namespace {

using net::resp_command;
using net::RespRequest;
using net::RespValue;

constexpr size_t kWindow = 64;     // members of a sorted set that are read at a time
constexpr size_t kForgotten = 64;  // entries that one change forgets
constexpr size_t kMaxChain = 500;  // a response with more before it has all items before it itself

// Converts an error of the connection, or one that the server reports.
Status failed(const Status& status) {
  switch (status.code()) {
    case ErrorCode::kOk:
    case ErrorCode::kCorrupt:
    case ErrorCode::kOutOfMemory: return status;
    case ErrorCode::kLimitExceeded: return {ErrorCode::kLimitExceeded, "the shared store is full: " + status.message()};
    default: return {ErrorCode::kIo, "the shared store is not available: " + status.message()};
  }
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Decrypts a record in place.
Result<std::string_view> opened(const net::SharedServer& server, const std::string& key, std::span<std::byte> stored) {
  Result<std::span<std::byte>> value = server.opened(key, stored);
  if (!value.ok()) return Status(ErrorCode::kCorrupt, "shared store: " + value.status().message());
  return text_of(*value);
}

void append(RespRequest& request, const std::string& command, const std::string& key,
            const std::vector<std::string>& words) {
  if (words.empty()) return;
  request.command(2 + words.size()).word(command).word(key);
  for (const std::string& word : words) request.word(word);
}

}  // namespace

// --- SharedSession

Result<SharedSession> SharedSession::open(net::SharedServer& server, const TimeLimits& limits) {
  Result<net::ConnectionPool::Lease> lease = server.connections().take(limits);
  if (!lease.ok()) return failed(lease.status());
  return SharedSession(server, *std::move(lease), limits);
}

Result<std::vector<RespValue>> SharedSession::call(const RespRequest& request,
                                                   std::span<const std::span<std::byte>> rooms) {
  Clock& clock = server_->connections().clock();
  const int64_t begin_ns = clock.steady_ns();
  std::vector<RespValue> answers;
  Status status = lease_->send(request, limits_);
  while (status.ok() && answers.size() < request.n_commands()) {
    const size_t i = answers.size();
    Result<RespValue> answer = lease_->receive(limits_, i < rooms.size() ? rooms[i] : std::span<std::byte>());
    status = answer.status();
    if (answer.ok()) answers.push_back(*std::move(answer));
  }
  server_->connections().report(status, clock.steady_ns() - begin_ns);
  // A value that has grown since its length was read is no reason to believe that the server is full.
  if (status.code() == ErrorCode::kLimitExceeded) status = {ErrorCode::kIo, status.message()};
  for (const RespValue& answer : answers) {
    if (status.ok()) status = net::status_of(answer);
  }
  if (!status.ok()) return failed(status);
  return answers;
}

Result<std::optional<std::string>> SharedSession::record(const std::string& key) {
  TRY_ASSIGN(std::vector<RespValue> answers, call(resp_command({"GET", key})));
  RespValue& answer = answers.front();
  if (answer.kind == RespValue::Kind::kNull) return std::optional<std::string>();
  if (answer.kind != RespValue::Kind::kBytes) return failed(net::unexpected(answer, "a record"));
  TRY_ASSIGN(const std::string_view value, opened(*server_, key, std::as_writable_bytes(std::span(answer.text))));
  return std::optional(std::string(value));
}

Result<std::optional<SharedInfo>> SharedSession::info(const std::string& id) {
  TRY_ASSIGN(const std::optional<std::string> found, record(SharedNames::key("info", id)));
  if (!found) return std::optional<SharedInfo>();
  TRY_ASSIGN(SharedInfo info, info_from(*found));
  return std::optional(std::move(info));
}

Result<std::vector<KeptRows::Row>> SharedSession::rows(const SharedNames& names,
                                                       std::span<const SharedInfo::Link> links,
                                                       const KeptRows::Key& key, uint64_t limit) {
  RespRequest request;
  std::vector<std::vector<std::byte>> stored;
  for (const SharedInfo::Link& link : links) {
    const auto n_bytes = static_cast<uint64_t>(link.text_bytes);
    if (n_bytes > limit) return Status(ErrorCode::kCorrupt, "shared store: an entry is larger than the store may be");
    limit -= n_bytes;
    stored.emplace_back(n_bytes);
    request.command(2).word("GET").word(SharedNames::key("text", link.id));
  }
  const std::vector<std::span<std::byte>> rooms(stored.begin(), stored.end());
  TRY_ASSIGN(const std::vector<RespValue> answers, call(request, rooms));
  std::vector<KeptRows::Row> rows;
  for (size_t i = 0; i < links.size(); ++i) {
    if (answers[i].kind == RespValue::Kind::kNull) {
      return Status(ErrorCode::kNotFound, "the server has lost an entry of the shared store");
    }
    if (answers[i].kind != RespValue::Kind::kInRoom) return failed(net::unexpected(answers[i], "a text"));
    const std::span<std::byte> bytes = rooms[i].first(answers[i].n_bytes);
    TRY_ASSIGN(const std::string_view record, opened(*server_, SharedNames::key("text", links[i].id), bytes));
    TRY_ASSIGN(SharedText text, text_from(record));
    const KeptRows::Key own{text.row.kind, text.space, text.row.name};
    if (own.kind != key.kind || own.space != key.space || names.entry(own) != links[i].id) {
      return Status(ErrorCode::kCorrupt, "shared store: a record is under another name than its own");
    }
    if (!rows.empty()) text.row.previous = rows.back().name;
    rows.push_back(std::move(text.row));
  }
  return rows;
}

// --- SharedChange: the transaction

Status SharedChange::begin() {
  const std::string key = names_.root();
  TRY(session_.call(resp_command({"WATCH", key})).status());
  TRY_ASSIGN(const std::optional<std::string> record, session_.record(key));
  if (!record) return {};  // nothing was ever stored
  TRY_ASSIGN(root_, root_from(*record));
  return {};
}

void SharedChange::abandon() { (void)session_.call(resp_command({"UNWATCH"})); }

Result<bool> SharedChange::commit() {
  ++root_.n_changes;
  std::vector<std::pair<std::string, std::string>> records = {{names_.root(), to_record(root_)}};
  std::vector<std::string> removed;
  const auto add = [&](std::string key, std::optional<std::string> record) {
    if (!record) return removed.push_back(std::move(key));
    records.emplace_back(std::move(key), *std::move(record));
  };
  for (const auto& [id, info] : infos_) {
    add(SharedNames::key("info", id), info ? std::optional(to_record(*info)) : std::nullopt);
  }
  for (const auto& [id, text] : texts_) add(SharedNames::key("text", id), text);
  RespRequest request;
  request.command(1).word("MULTI");
  std::vector<std::vector<std::byte>> sealed(records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    const auto& [key, record] = records[i];
    const std::span<const std::byte> pieces[] = {bytes_of(record)};
    TRY_ASSIGN(const auto stored, session_.server().to_store(key, pieces, sealed[i]));
    request.command(3).word("SET").word(key).value(stored);
  }
  if (!removed.empty()) {
    request.command(1 + removed.size()).word("DEL");
    for (const std::string& key : removed) request.word(key);
  }
  for (const auto& [set, changes] : scores_) {
    std::vector<std::string> added, gone;
    for (const auto& [member, score] : changes) {
      if (score) added.push_back(std::to_string(*score));
      (score ? added : gone).push_back(member);
    }
    append(request, "ZREM", set, gone);
    append(request, "ZADD", set, added);
  }
  for (const auto& [set, changes] : members_) {
    std::vector<std::string> added, gone;
    for (const auto& [member, is_in] : changes) (is_in ? added : gone).push_back(member);
    append(request, "SREM", set, gone);
    append(request, "SADD", set, added);
  }
  for (const auto& [hash, changes] : fields_) {
    std::vector<std::string> added, gone;
    for (const auto& [field, value] : changes) {
      (value ? added : gone).push_back(field);
      if (value) added.push_back(*value);
    }
    append(request, "HDEL", hash, gone);
    append(request, "HSET", hash, added);
  }
  request.command(1).word("EXEC");
  TRY_ASSIGN(const std::vector<RespValue> answers, session_.call(request));
  const RespValue& done = answers.back();
  if (done.kind == RespValue::Kind::kNull) return false;
  if (done.kind != RespValue::Kind::kList) return failed(net::unexpected(done, "that of a transaction"));
  for (const RespValue& answer : done.elements) TRY(failed(net::status_of(answer)));
  return true;
}

// --- reads within the change

Result<SharedChange::Info> SharedChange::info(const std::string& id) {
  if (const auto known = infos_.find(id); known != infos_.end()) return known->second;
  Result<Info> read = session_.info(id);
  if (read.status().code() == ErrorCode::kCorrupt) return Info();
  return read;
}

Result<int64_t> SharedChange::score(const std::string& set, const std::string& member) {
  const auto& changes = scores_[set];
  if (const auto known = changes.find(member); known != changes.end()) return known->second.value_or(0);
  TRY_ASSIGN(const std::vector<RespValue> answers, session_.call(resp_command({"ZSCORE", set, member})));
  return shared_number(answers.front().text).value_or(0);
}

Status SharedChange::read_more(const std::string& set, End end, Window& window) {
  const size_t begin = window.read.size();
  const std::string from = std::to_string(begin), to = std::to_string(begin + kWindow - 1);
  const char* command = end == End::kLowest ? "ZRANGE" : "ZREVRANGE";
  TRY_ASSIGN(const std::vector<RespValue> answers, session_.call(resp_command({command, set, from, to, "WITHSCORES"})));
  const std::vector<RespValue>& listed = answers.front().elements;
  for (size_t i = 0; i + 1 < listed.size() && i < 2 * kWindow; i += 2) {
    const std::optional<int64_t> score = shared_number(listed[i + 1].text);
    if (!score) return {ErrorCode::kCorrupt, "shared store: a score is not a number"};
    window.read.push_back({listed[i].text, *score});
  }
  window.is_complete = window.read.size() < begin + kWindow;
  return {};
}

Result<std::optional<SharedChange::Ranked>> SharedChange::end_of(const std::string& set, End end,
                                                                 const std::string& not_of) {
  const auto& changes = scores_[set];
  const auto is_passed = [&](const Ranked& one) {
    return changes.contains(one.member) || (!not_of.empty() && one.member.starts_with(not_of));
  };
  Window& window = windows_[{set, end}];
  for (;;) {
    while (window.n_passed < window.read.size() && is_passed(window.read[window.n_passed])) ++window.n_passed;
    if (window.n_passed < window.read.size() || window.is_complete) break;
    TRY(read_more(set, end, window));
  }
  std::optional<Ranked> best;
  if (window.n_passed < window.read.size()) best = window.read[window.n_passed];
  for (const auto& [member, score] : changes) {
    if (!score || (!not_of.empty() && member.starts_with(not_of))) continue;
    if (!best || (end == End::kLowest ? *score < best->score : *score > best->score)) best = Ranked{member, *score};
  }
  return best;
}

// --- writes of entries

Result<KeptRows::Row> SharedChange::row(const KeptRows::Key& key) {
  const std::string id = names_.entry(key);
  TRY_ASSIGN(const Info found, session_.info(id));
  if (!found || found->is_gone) return Status(ErrorCode::kNotFound, "nothing is stored under this id");
  const SharedInfo::Link link{id, found->text_bytes};
  TRY_ASSIGN(std::vector<KeptRows::Row> rows, session_.rows(names_, {&link, 1}, key, budget_bytes_));
  return std::move(rows.back());
}

Result<bool> SharedChange::can_continue(const std::string& space, const std::string& name) {
  TRY_ASSIGN(const Info found, info(names_.entry({Kept::kResponse, space, name})));
  return found && found->key.space == space && found->chain.size() < kMaxChain;
}

Status SharedChange::put(const Holder& holder, const KeptRows::Row& row) {
  SharedInfo next{.key = {row.kind, holder.space, row.name},
                  .api_key = names_.hidden({"key", holder.key}),
                  .owner = names_.hidden({"owner", holder.key, holder.owner}),
                  .n_bytes = row.n_bytes(),
                  .places = names_.places(holder.space, row)};
  const std::string id = names_.entry(next.key);
  TRY_ASSIGN(const Info before, info(id));
  if (!row.previous.empty()) {
    const std::string parent_id = names_.entry({Kept::kResponse, holder.space, row.previous});
    TRY_ASSIGN(Info parent, info(parent_id));
    if (!parent) return {ErrorCode::kNotFound, "the response that is continued is not stored"};
    next.chain = parent->chain;
    next.chain.push_back({parent_id, parent->text_bytes});
    ++parent->n_children;
    infos_[parent_id] = std::move(parent);
  }
  if (before) {
    next.n_children = before->n_children;
    unmark_used(before->api_key, SharedMember::of(id, *before));
    TRY(add_bytes(before->api_key, SharedMember::of(id, *before), -1));
    TRY(leave_parent(*before));
  }
  std::string text = to_record(holder.space, row);
  next.text_bytes = static_cast<int64_t>(text.size() + session_.server().overhead_bytes());
  texts_[id] = std::move(text);
  TRY(add_bytes(next.api_key, SharedMember::of(id, next), 1));
  mark_used(id, next);
  TRY(replace_places(id, before ? &*before : nullptr, &next));
  members_[names_.entries(holder.space)][id] = true;
  put_last_ = id;
  put_last_of_ = next.api_key;
  infos_[id] = std::move(next);
  return make_room();
}

Status SharedChange::replace_places(const std::string& id, const SharedInfo* before, const SharedInfo* after) {
  const SharedInfo& info = after != nullptr ? *after : *before;
  const std::string hash = names_.places_of(info.key.space);
  auto& changes = fields_[hash];
  std::vector<std::string> left;
  if (before != nullptr) {
    std::ranges::copy_if(before->places, std::back_inserter(left), [&](const std::string& place) {
      return after == nullptr || !std::ranges::binary_search(after->places, place);
    });
  }
  if (!left.empty()) {
    RespRequest request;
    append(request, "HMGET", hash, left);
    TRY_ASSIGN(const std::vector<RespValue> answers, session_.call(request));
    const std::vector<RespValue>& ids = answers.front().elements;
    for (size_t i = 0; i < left.size() && i < ids.size(); ++i) {
      const auto known = changes.find(left[i]);
      const bool is_own = known == changes.end() ? ids[i].text == id : known->second == id;
      if (is_own) changes[left[i]] = std::nullopt;  // another entry may have taken the place since
    }
  }
  if (after == nullptr) return {};
  for (const std::string& place : after->places) changes[place] = id;
  return {};
}

Status SharedChange::add_bytes(const std::string& api_key, const SharedMember& member, int64_t sign) {
  const int64_t delta = sign * member.n_bytes;
  const std::pair<std::string, std::string> sums[] = {{names_.keys(), api_key},
                                                      {SharedNames::key("owners", api_key), member.owner}};
  for (const auto& [set, name] : sums) {
    TRY_ASSIGN(const int64_t before, score(set, name));
    const int64_t after = before + delta;
    scores_[set][name] = after > 0 ? std::optional(after) : std::nullopt;
  }
  root_.n_bytes = std::max<int64_t>(0, root_.n_bytes + delta);
  if (member.kind != Kept::kHistory) return {};
  root_.n_histories = std::max<int64_t>(0, root_.n_histories + sign);
  root_.history_bytes = std::max<int64_t>(0, root_.history_bytes + delta);
  return {};
}

void SharedChange::mark_used(const std::string& id, const SharedInfo& info) {
  const std::string member = SharedMember::of(id, info).text();
  ++root_.used;
  scores_[SharedNames::used(info.api_key)][member] = root_.used;
  scores_[SharedNames::used(info.api_key, info.owner)][member] = root_.used;
}

void SharedChange::unmark_used(const std::string& api_key, const SharedMember& member) {
  scores_[SharedNames::used(api_key)][member.text()] = std::nullopt;
  scores_[SharedNames::used(api_key, member.owner)][member.text()] = std::nullopt;
}

Status SharedChange::touch(const KeptRows::Key& key) {
  const std::string id = names_.entry(key);
  TRY_ASSIGN(const Info found, info(id));
  if (found && !found->is_gone) mark_used(id, *found);
  return {};
}

// --- removal

Status SharedChange::remove(const KeptRows::Key& key) {
  const std::string id = names_.entry(key);
  if (const auto known = infos_.find(id); known == infos_.end()) {
    const Result<Info> read = session_.info(id);
    if (read.status().code() == ErrorCode::kCorrupt) {
      // The sums and the order of uses are corrected when the entry is evicted.
      infos_[id] = std::nullopt;
      texts_[id] = std::nullopt;
      return {};
    }
    TRY(read.status());
  }
  TRY_ASSIGN(Info found, info(id));
  if (!found || found->is_gone) return {ErrorCode::kNotFound, "nothing is stored under this id"};
  return remove(id, *std::move(found));
}

Status SharedChange::remove(const std::string& id, SharedInfo info) {
  unmark_used(info.api_key, SharedMember::of(id, info));
  TRY(replace_places(id, &info, nullptr));
  info.places.clear();
  info.is_gone = true;
  if (info.n_children <= 0) return drop(id, info);
  infos_[id] = std::move(info);
  return {};
}

Status SharedChange::drop(const std::string& id, const SharedInfo& info) {
  infos_[id] = std::nullopt;
  texts_[id] = std::nullopt;
  members_[names_.entries(info.key.space)][id] = false;
  TRY(add_bytes(info.api_key, SharedMember::of(id, info), -1));
  return leave_parent(info);
}

Status SharedChange::leave_parent(const SharedInfo& info) {
  if (info.chain.empty()) return {};
  const std::string& parent_id = info.chain.back().id;
  TRY_ASSIGN(Info parent, this->info(parent_id));
  if (!parent) return {};
  --parent->n_children;
  if (parent->is_gone && parent->n_children <= 0) return drop(parent_id, *parent);
  infos_[parent_id] = std::move(parent);
  return {};
}

Result<bool> SharedChange::forget(const std::string& space) {
  const std::string set = names_.entries(space);
  const std::string n = std::to_string(kForgotten);
  TRY_ASSIGN(const std::vector<RespValue> answers, session_.call(resp_command({"SRANDMEMBER", set, n})));
  const std::vector<RespValue>& ids = answers.front().elements;
  for (const RespValue& one : ids) {
    const std::string& id = one.text;
    TRY_ASSIGN(const Info found, info(id));
    members_[set][id] = false;
    texts_[id] = std::nullopt;
    if (found && found->key.space == space) {
      if (!found->is_gone) unmark_used(found->api_key, SharedMember::of(id, *found));
      TRY(replace_places(id, &*found, nullptr));
      TRY(drop(id, *found));
    }
    infos_[id] = std::nullopt;
  }
  return ids.size() >= kForgotten;
}

// --- eviction

Status SharedChange::make_room() {
  while (root_.n_bytes > static_cast<int64_t>(budget_bytes_)) {
    TRY_ASSIGN(const bool has_evicted, evict_one());
    if (!has_evicted) return store_is_full(budget_bytes_);
  }
  return {};
}

// False if only the entry that was put last is left.
Result<bool> SharedChange::evict_one() {
  TRY_ASSIGN(const std::optional<Ranked> api_key, end_of(names_.keys(), End::kHighest));
  if (!api_key) {  // the server has lost the sums
    root_.n_bytes = root_.n_histories = root_.history_bytes = 0;
    return true;
  }
  TRY_ASSIGN(const std::optional<Ranked> owner, end_of(SharedNames::key("owners", api_key->member), End::kHighest));
  TRY_ASSIGN(std::optional<Ranked> oldest, end_of(SharedNames::used(api_key->member), End::kLowest, put_last_));
  std::optional<SharedMember> member = oldest ? SharedMember::parse(oldest->member) : std::nullopt;
  if (owner) {
    TRY_ASSIGN(std::optional<Ranked> of_owner,
               end_of(SharedNames::used(api_key->member, owner->member), End::kLowest, put_last_));
    // Either set may have lost older entries of the owner.
    const bool is_older = of_owner && (!member || member->owner != owner->member || of_owner->score < oldest->score);
    if (is_older) {
      oldest = std::move(of_owner);
      member = SharedMember::parse(oldest->member);
    }
  }
  if (!oldest && api_key->member == put_last_of_) return false;
  if (!oldest) {  // the server has lost the entries that the sum counts
    root_.n_bytes = std::max<int64_t>(0, root_.n_bytes - api_key->score);
    scores_[names_.keys()][api_key->member] = std::nullopt;
    return true;
  }
  if (!member) return Status(ErrorCode::kCorrupt, "shared store: not a sound name of an entry");
  TRY(evict(api_key->member, *member));
  return true;
}

Status SharedChange::evict(const std::string& api_key, const SharedMember& member) {
  TRY_ASSIGN(Info found, info(member.id));
  const bool is_current = found && !found->is_gone && found->api_key == api_key &&
                          SharedMember::of(member.id, *found).text() == member.text();
  if (is_current) return remove(member.id, *std::move(found));
  unmark_used(api_key, member);
  if (!found) {
    infos_[member.id] = std::nullopt;
    texts_[member.id] = std::nullopt;
  }
  return add_bytes(api_key, member, -1);
}

}  // namespace ibid::serve

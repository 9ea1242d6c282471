#include "server/store/shared_rows.h"

#include <algorithm>
#include <charconv>

namespace ibid::serve {
namespace {

using net::RespRequest;
using net::RespValue;

constexpr size_t kPrefixes = 64;  // prefixes of a history that are asked for at a time

uint64_t seed_of(const net::SharedServer& server) {
  const std::string digits = SharedNames(server, 0).hidden({"hash seed"});
  uint64_t seed = 0;
  std::from_chars(digits.data(), digits.data() + 16, seed, 16);
  return seed;
}

KeptRows::Sizes sizes_of(const SharedRoot& root) {
  return {.n_bytes = static_cast<uint64_t>(root.n_bytes),
          .n_histories = static_cast<uint64_t>(root.n_histories),
          .history_bytes = static_cast<uint64_t>(root.history_bytes)};
}

// Returns the ids that a hash of places has for the names.
Result<std::vector<std::string>> ids_at(SharedSession& session, const std::string& hash,
                                        const std::vector<std::string>& places) {
  RespRequest request;
  request.command(2 + places.size()).word("HMGET").word(hash);
  for (const std::string& place : places) request.word(place);
  TRY_ASSIGN(const std::vector<RespValue> answers, session.call(request));
  std::vector<std::string> ids;
  for (const RespValue& one : answers.front().elements) ids.push_back(one.text);
  ids.resize(places.size());
  return ids;
}

}  // namespace

SharedRows::SharedRows(std::shared_ptr<net::SharedServer> server, uint64_t budget_bytes,
                       std::function<void(const std::string&)> remark)
    : server_(std::move(server)),
      budget_bytes_(budget_bytes),
      remark_(std::move(remark)),
      hash_seed_(seed_of(*server_)) {}

TimeLimits SharedRows::limits(int64_t ns) const { return TimeLimits{}.within(ns, server_->connections().clock()); }

template <typename Outcome>
Outcome SharedRows::noted(Outcome outcome) {
  if constexpr (std::is_same_v<Outcome, Status>) {
    note(outcome);
  } else {
    note(outcome.status());
  }
  return outcome;
}

void SharedRows::note(const Status& status) {
  const bool is_down = status.code() == ErrorCode::kIo;
  if (is_down_.exchange(is_down) == is_down || !remark_) return;
  remark_(is_down ? status.message() + "; answers go on, but are not stored" : "the shared store is available again");
}

void SharedRows::remember(const SharedRoot& root) {
  const std::lock_guard lock(mutex_);
  known_ = sizes_of(root);
}

Result<SharedNames> SharedRows::names(SharedSession& session) {
  if (which_ < 0 && server_->n_keys() == 1) which_ = 0;
  for (size_t which = 0; which_ < 0 && which < server_->n_keys(); ++which) {
    TRY_ASSIGN(const auto root, session.record(SharedNames(*server_, which).root()));
    if (root) which_ = static_cast<int>(which);
  }
  return SharedNames(*server_, static_cast<size_t>(std::max(which_.load(), 0)));
}

Status SharedRows::change(const std::function<Status(Change&)>& change) {
  const std::lock_guard lock(changing_);
  return noted(change_within(limits(kChangeNs), change));
}

Status SharedRows::change_within(const TimeLimits& limits, const std::function<Status(Change&)>& change) {
  while (!limits.reached(server_->connections().clock())) {
    TRY_ASSIGN(SharedSession session, SharedSession::open(*server_, limits));
    TRY_ASSIGN(const SharedNames names, this->names(session));
    SharedChange one(session, names, budget_bytes_);
    TRY(one.begin());
    if (const Status status = change(one); !status.ok()) {
      if (status.code() != ErrorCode::kIo) one.abandon();
      return status;
    }
    TRY_ASSIGN(const bool is_done, one.commit());
    if (!is_done) continue;
    remember(one.root());
    return {};
  }
  return {ErrorCode::kIo, "the shared store is not available: other nodes change it all the time"};
}

Result<std::vector<KeptRows::Row>> SharedRows::find(const Key& key) {
  const TimeLimits limits = this->limits(key.kind == Kept::kHistory ? kLookUpNs : kReadNs);
  Result<std::vector<Row>> found = find_within(limits, key);
  // A change of another node between the two reads is one reason for an error.
  const bool may_be_torn = !found.ok() && found.status().code() != ErrorCode::kNotFound;
  if (may_be_torn && server_->connections().breaker().allows_calls()) found = find_within(limits, key);
  return noted(std::move(found));
}

Result<std::vector<KeptRows::Row>> SharedRows::find_within(const TimeLimits& limits, const Key& key) {
  TRY_ASSIGN(SharedSession session, SharedSession::open(*server_, limits));
  TRY_ASSIGN(const SharedNames names, this->names(session));
  const std::string id = names.entry(key);
  TRY_ASSIGN(const std::optional<SharedInfo> info, session.info(id));
  if (!info || info->is_gone) return Status(ErrorCode::kNotFound, "nothing is stored under this id");
  std::vector<SharedInfo::Link> links = info->chain;
  links.push_back({id, info->text_bytes});
  return session.rows(names, links, key, budget_bytes_);
}

Status SharedRows::visit_responses(const std::string& space, const std::string& item_id,
                                   const std::function<Result<bool>(const Row&)>& visit) {
  const auto find_key = [&]() -> Result<std::optional<SharedInfo>> {
    TRY_ASSIGN(SharedSession session, SharedSession::open(*server_, limits(kReadNs)));
    TRY_ASSIGN(const SharedNames names, this->names(session));
    TRY_ASSIGN(const std::vector<std::string> ids,
               ids_at(session, names.places_of(space), {names.item(space, item_id)}));
    if (ids.front().empty()) return std::optional<SharedInfo>();
    return session.info(ids.front());
  };
  TRY_ASSIGN(const std::optional<SharedInfo> info, noted(find_key()));
  if (!info || info->is_gone || info->key.kind != Kept::kResponse || info->key.space != space) return {};
  const Result<std::vector<Row>> chain = find(info->key);
  if (chain.status().code() == ErrorCode::kNotFound) return {};
  TRY(chain.status());
  return visit(chain->back()).status();
}

Result<std::optional<FoundHistory>> SharedRows::find_history(const std::string& space, std::span<const uint64_t> hashes,
                                                             size_t n_known) {
  Result<SharedSession> session = SharedSession::open(*server_, limits(kLookUpNs));
  if (!session.ok()) return noted(Result<std::optional<FoundHistory>>(session.status()));
  return noted(find_in(*session, space, hashes, n_known));
}

Result<std::optional<FoundHistory>> SharedRows::find_in(SharedSession& session, const std::string& space,
                                                        std::span<const uint64_t> hashes, size_t n_known) {
  TRY_ASSIGN(const SharedNames names, this->names(session));
  for (size_t n = hashes.size(); n > n_known;) {
    const size_t n_asked = std::min(kPrefixes, n - n_known);
    std::vector<std::string> places;
    for (size_t i = 0; i < n_asked; ++i) places.push_back(names.prefix(space, hashes[n - i - 1], n - i));
    TRY_ASSIGN(const std::vector<std::string> ids, ids_at(session, names.places_of(space), places));
    for (size_t i = 0; i < n_asked; ++i) {
      if (ids[i].empty()) continue;
      const Result<std::optional<SharedInfo>> info = session.info(ids[i]);
      if (info.status().code() == ErrorCode::kCorrupt) continue;
      TRY(info.status());
      const std::optional<SharedInfo>& known = *info;
      if (!known || known->key.kind != Kept::kHistory || known->key.space != space) continue;
      return std::optional(FoundHistory{known->key.name, n - i});
    }
    n -= n_asked;
  }
  return std::optional<FoundHistory>();
}

Result<KeptRows::Sizes> SharedRows::sizes() {
  const auto read = [&]() -> Result<Sizes> {
    TRY_ASSIGN(SharedSession session, SharedSession::open(*server_, limits(kReadNs)));
    TRY_ASSIGN(const SharedNames names, this->names(session));
    TRY_ASSIGN(const std::optional<std::string> record, session.record(names.root()));
    if (!record) return Sizes();
    TRY_ASSIGN(const SharedRoot root, root_from(*record));
    remember(root);
    return sizes_of(root);
  };
  return noted(read());
}

KeptRows::Sizes SharedRows::known_sizes() {
  const std::lock_guard lock(mutex_);
  return known_;
}

}  // namespace ibid::serve

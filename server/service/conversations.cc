#include "server/service/conversations.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/work_threads.h"
#include "model/model_fingerprint.h"
#include "runtime/session/session_file.h"
#include "runtime/session/session_json.h"
#include "server/service/known_conversations.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

std::shared_ptr<ConversationStore> store_of(const ConversationOptions& options) {
  return options.store != nullptr ? options.store : ConversationStore::open_or_in_memory({.remark = options.remark});
}

// --- Files of earlier versions: <cache directory>/conversations/<32 hex digits>.chat, each a saved session
// (runtime/session/session_file.h) with the notes of Conversation::to_saved().

constexpr std::string_view kEnding = ".chat";
constexpr std::string_view kUnfinished = ".tmp";  // ending of files that create_temporary() in base/file_ops.h makes
constexpr size_t kNameDigits = 32;

bool begins_as_ours(std::string_view name) {
  return name.size() >= kNameDigits + kEnding.size() && name.substr(kNameDigits).starts_with(kEnding) &&
         name.substr(0, kNameDigits).find_first_not_of("0123456789abcdef") == name.npos;
}

// True if the error means that the file itself is invalid. Otherwise the file cannot be read now, or a later version
// wrote it.
bool is_unsound(ErrorCode code) {
  switch (code) {
    case ErrorCode::kIo:
    case ErrorCode::kNotFound:
    case ErrorCode::kNotRegularFile:
    case ErrorCode::kUnsafePath:
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kUnsupportedVersion: return false;
    default: return true;
  }
}

// Stores the conversation of a file. Errors: those of read_saved_session(); kBadHeader for invalid notes.
Status put_file(const std::string& path, const std::string& name, FileOps& files, ConversationStore& store) {
  TRY_ASSIGN(const SavedSession saved, read_saved_session(files, path));
  std::optional<ConversationPlaces> places = Conversation::places_of(saved, store.hash_seed());
  if (!places) return {ErrorCode::kBadHeader, path + ": bad field 'notes'"};
  const std::string space = *text_member(saved.notes, "namespace");
  const std::string* owner = text_member(saved.notes, "owner");  // null: the file was written before files had owners
  const Holder holder{space, owner == nullptr ? space : *owner, owner == nullptr ? space : *owner};
  TRY_ASSIGN(std::string text, session_to_text(session_to_json(saved)));
  return store.put_history(holder, {.name = name.substr(0, kNameDigits),
                                    .numerics_version = saved.numerics_version,
                                    .text = std::move(text),
                                    .hashes = std::move(places->hashes),
                                    .first = places->first});
}

// Moves the conversations of a directory into the store, the oldest first. Removes each file after it was moved, and
// then the directory if it is empty. An invalid file is logged, counted as refused, and removed. A file of a later
// version, an unreadable file, and a file that the store cannot write are logged and stay for the next time. Files with
// other names stay. If the process crashes in between, the remaining files are moved to the same entries the next time.
void take_over_conversation_files(const std::string& directory, FileOps& files, ConversationStore& store,
                                  const std::function<void(const std::string&)>& remark) {
  const Result<FileInfo> info = files.info(directory);
  if (!info.ok() || info->kind != FileKind::kDirectory) return;
  const auto say = [&](const std::string& what) {
    if (remark) remark("a conversation on disk is not used: " + what);
  };
  Result<std::unique_ptr<Directory>> opened = files.open_directory(directory);
  const Result<std::vector<std::string>> names = opened.ok() ? (*opened)->list() : opened.status();
  if (!names.ok()) return say(names.status().message());
  std::vector<std::pair<int64_t, std::string>> found;  // modification time and name of each file to move
  for (const std::string& name : *names) {
    if (!begins_as_ours(name)) continue;
    const Result<FileInfo> file = (*opened)->info(name);
    if (!file.ok() || file->kind != FileKind::kRegular) {
      say(directory + "/" + name + ": not a regular file");
    } else if (name.ends_with(kUnfinished)) {
      (void)(*opened)->remove(name);
    } else if (name.size() == kNameDigits + kEnding.size()) {
      found.emplace_back(file->mtime_ns, name);
    }
  }
  std::ranges::sort(found);
  for (const auto& [mtime_ns, name] : found) {
    const Status status = put_file(directory + "/" + name, name, files, store);
    if (!status.ok()) say(status.message());
    if (!status.ok() && !is_unsound(status.code())) continue;
    if (!status.ok()) store.count_refused();
    if (const Status removed = (*opened)->remove(name); !removed.ok()) say(removed.message());
  }
  std::error_code is_in_use;
  std::filesystem::remove(directory, is_in_use);
}

}  // namespace

struct Conversations::Parts {
  using Known = KnownConversations::Known;
  using Place = KnownConversations::Place;
  using Wanted = KnownConversations::Wanted;

  explicit Parts(const ConversationOptions& o) : options(o), store(store_of(o)), known(o.budget_bytes) {}

  std::optional<std::pair<Conversation, size_t>> take_known(const Wanted& wanted);
  std::vector<Known> make_room();

  bool keeps(const Engine& engine) const { return store->is_lasting() && engine.state().fingerprint(); }
  void take_over_files(const Engine& engine);
  void say_versions();
  void restore(const std::shared_ptr<Engine>& engine, const Wanted& wanted);
  Result<Conversation> read(const std::shared_ptr<Engine>& engine, const Wanted& wanted, const FoundHistory& found);
  void write_later(uint64_t number);
  void write(uint64_t number);
  void wait_for_writer();
  // A server that cannot be reached is logged once, by the store.
  bool is_logged_by_store(const Status& status) const { return status.code() == ErrorCode::kIo && !store->is_local(); }
  void remark(const std::string& text) const {
    if (options.remark) options.remark(text);
  }

  const ConversationOptions options;
  const std::shared_ptr<ConversationStore> store;
  mutable std::mutex mutex;  // guards the following members
  KnownConversations known;
  ConversationStats stats;

  std::mutex taking_over;            // held while files are moved; guards taken_over
  std::set<std::string> taken_over;  // cache directories whose files were moved
  std::atomic<uint64_t> n_waiting{0};
  std::atomic<bool> has_failed{false};   // a write has failed and was logged
  WorkThreads writer{1, "ibid-writer"};  // the last member: it ends before the members that it uses are destroyed
};

// Returns a copy of the known conversation that the history continues, and the number of messages that they share;
// nullopt if a new session is better. The original stays known until the copy is put back, so that two requests may
// continue it at once.
std::optional<std::pair<Conversation, size_t>> Conversations::Parts::take_known(const Wanted& wanted) {
  std::shared_ptr<const SharedConversation> shared;
  uint64_t number = 0;  // of that conversation, if the history continues it at its end
  size_t n = 0;
  {
    const std::lock_guard lock(mutex);
    const std::optional<Place> place = known.find(wanted);
    const bool at_end = place && place->n == place->known->conversation().size();
    if (place && (at_end || place->known->conversation().has_answer(place->n))) {
      known.use(*place);
      shared = place->known->shared;
      number = at_end ? place->known->number : 0;
      n = place->n;
    }
  }
  std::optional<Conversation> copy;
  if (shared != nullptr) {  // without the lock, because the fork waits for idle work to end
    if (Result<Conversation> fork = shared->fork(n); fork.ok()) copy = *std::move(fork);
  }
  if (copy && number != 0) copy->goes_on_from(number);
  const std::lock_guard lock(mutex);
  ++(!copy ? stats.n_unknown : number != 0 ? stats.n_continued : stats.n_forked);
  if (!copy) return std::nullopt;
  return std::pair(*std::move(copy), n);
}

// REQUIRES: mutex is held. The caller destroys the returned conversations after it has released the mutex.
std::vector<KnownConversations::Known> Conversations::Parts::make_room() {
  std::vector<Known> gone = known.make_room();
  stats.n_forgotten += gone.size();
  return gone;
}

// Imports the files of earlier versions, once for each directory.
void Conversations::Parts::take_over_files(const Engine& engine) {
  const std::string directory = engine.state().cache_directory();
  const std::lock_guard lock(taking_over);
  if (!taken_over.insert(directory).second) return;
  if (!directory.empty()) {
    take_over_conversation_files(directory + "/conversations", engine.state().files(), *store, options.remark);
  }
  if (taken_over.size() == 1) say_versions();
}

void Conversations::Parts::say_versions() {
  const auto versions = store->history_versions();
  if (!versions.ok()) return remark("conversations on disk cannot be read: " + versions.status().message());
  for (const auto& [version, n] : *versions) {
    if (version == kNumericsVersion) continue;
    remark(std::to_string(n) + (n == 1 ? " conversation was" : " conversations were") + " stored by " +
           (version == 0 ? "an earlier version" : "version " + std::to_string(version)) +
           " of the numerics, this program has version " + std::to_string(kNumericsVersion) +
           ": their prompts are prefilled again");
  }
}

// Restores the stored conversation with the longest shared prefix, unless a conversation in memory shares a prefix that
// is as long.
void Conversations::Parts::restore(const std::shared_ptr<Engine>& engine, const Wanted& wanted) {
  if (!keeps(*engine)) return;
  take_over_files(*engine);
  const auto n_known = [&] {
    const std::optional<Place> place = known.find(wanted);
    return place ? place->n : 0;
  };
  size_t n_in_memory = 0;
  {
    const std::lock_guard lock(mutex);
    n_in_memory = n_known();
  }
  const Holder holder = holder_of(wanted.cache_namespace);
  const auto found = store->find_history(holder, wanted.hashes, n_in_memory);
  if (is_logged_by_store(found.status())) return;
  if (!found.ok()) return remark("conversations on disk cannot be read: " + found.status().message());
  if (!*found) return;
  const FoundHistory& history = **found;
  Result<Conversation> conversation = read(engine, wanted, history);
  if (!conversation.ok()) {
    const Status& why = conversation.status();
    if (why.code() == ErrorCode::kNotFound) return;  // the history was removed meanwhile
    if (is_logged_by_store(why)) return;
    remark("a conversation on disk is not used: " + why.message());
    const bool is_out_of_reach = why.code() == ErrorCode::kOutOfMemory || why.code() == ErrorCode::kIo;
    // If the removal fails, it is tried again when the history is found again.
    if (!is_out_of_reach) (void)store->refuse_history(holder, history.name);
    return;
  }
  const size_t n_bytes = conversation->n_bytes();
  std::vector<Known> gone;  // destroyed after the lock is released
  const std::lock_guard lock(mutex);
  if (n_known() >= history.n) return;  // another request has restored it meanwhile
  // A conversation of the same name is another state of this one: another process or node has written a turn since, or
  // this one has not written its last turn yet.
  if (const std::optional<Place> other = known.find_kept(history.name)) {
    const Conversation& before = other->known->conversation();
    const bool is_continued = before.session().engine() == engine && conversation->size() >= before.size() &&
                              before.begins(wanted.messages, before.size());
    if (is_continued) {
      gone.push_back(known.take_out(*other));
    } else {
      known.rename(*other, random_digits());
    }
  }
  known.add({.shared = std::make_shared<const SharedConversation>(*std::move(conversation)),
             .n_bytes = n_bytes,
             .kept = history.name});
  ++stats.n_restored;
  std::ranges::move(make_room(), std::back_inserter(gone));
}

// Reads a stored conversation, and checks that its first messages equal those of the history.
Result<Conversation> Conversations::Parts::read(const std::shared_ptr<Engine>& engine, const Wanted& wanted,
                                                const FoundHistory& found) {
  TRY_ASSIGN(const std::string text, store->read_history(holder_of(wanted.cache_namespace), found.name));
  TRY_ASSIGN(const SavedSession saved, session_from_text(text, found.name));
  TRY_ASSIGN(Conversation conversation,
             Conversation::resume(engine, wanted.cache_namespace, saved, store->hash_seed()));
  if (!conversation.begins(wanted.messages, found.n)) {
    return Status(ErrorCode::kMismatch, found.name + ": the stored conversation does not match its hash");
  }
  return conversation;
}

void Conversations::Parts::write_later(uint64_t number) {
  ++n_waiting;
  writer.post([this, number] {
    // If memory is out, the conversation is still in memory, and is written again after its next answer.
    (void)guarded([&] {
      write(number);
      return Status();
    });
    --n_waiting;
  });
}

// Writes a known conversation. Does nothing if another conversation has replaced it, because that one is written
// instead.
void Conversations::Parts::write(uint64_t number) {
  StoredHistory history;
  std::shared_ptr<const SharedConversation> shared;
  {
    const std::lock_guard lock(mutex);
    const std::optional<Place> place = known.find_number(number);
    if (!place) return;
    history.name = place->known->kept;
    shared = place->known->shared;
  }
  const Conversation& conversation = shared->conversation();
  const SavedSession saved = conversation.to_saved();
  ConversationPlaces places = conversation.places();
  history.numerics_version = kNumericsVersion;
  history.hashes = std::move(places.hashes);
  history.first = places.first;
  Result<std::string> text = session_to_text(session_to_json(saved));
  Status status = text.status();
  if (text.ok()) {
    history.text = *std::move(text);
    status = store->put_history(holder_of(conversation.cache_namespace()), history);
  }
  if (!status.ok() && !is_logged_by_store(status) && !has_failed.exchange(true)) {
    remark("a conversation could not be stored: " + status.message());
  }
}

void Conversations::Parts::wait_for_writer() {
  std::promise<void> done;
  writer.post([&done] { done.set_value(); });
  done.get_future().wait();
}

Conversations::Conversations(const ConversationOptions& options) : parts_(std::make_unique<Parts>(options)) {}
Conversations::~Conversations() = default;

Result<Conversation> Conversations::take(const std::shared_ptr<Engine>& engine, const std::string& cache_namespace,
                                         const Json& messages, const Json& variables, WhenFull when_full) {
  if (!messages.is_array() || messages.empty()) {
    return {ErrorCode::kInvalidArgument, "messages must be an array of at least one message"};
  }
  const uint64_t seed = parts_->store->hash_seed();
  Parts::Wanted wanted{*engine, cache_namespace, messages, {}};
  wanted.hashes.reserve(messages.size());
  uint64_t hash = Conversation::start_of(cache_namespace, *engine, seed);
  for (const Json& message : messages) wanted.hashes.push_back(hash = chain_hash(hash, message));

  parts_->restore(engine, wanted);
  std::optional<std::pair<Conversation, size_t>> known = parts_->take_known(wanted);
  if (!known) {
    SessionOptions options;
    options.cache_namespace = cache_namespace;
    options.when_full = when_full;
    options.repair_when_idle = parts_->options.repair_when_idle;
    TRY_ASSIGN(ChatSession session, SessionState::create(engine, {std::move(options), variables}));
    known.emplace(Conversation(cache_namespace, std::move(session), seed), 0);
  }
  Conversation& conversation = known->first;
  TRY(conversation.session().state().set_variables(variables));
  TRY(conversation.session().set_when_full(when_full));
  TRY(conversation.go_on(messages, known->second));
  return std::move(conversation);
}

Result<Conversation> Conversations::take_plain(std::shared_ptr<Engine> engine, const std::string& cache_namespace,
                                               Json prompt) {
  SessionOptions options;
  options.cache_namespace = cache_namespace;
  options.repair_when_idle = false;
  TRY_ASSIGN(ChatSession session,
             SessionState::create(std::move(engine), {.options = std::move(options), .plain = true}));
  TRY(session.state().replace_from(0, Json::array({std::move(prompt)})));
  return Conversation(cache_namespace, std::move(session), 0);  // hash seed 0: the conversation is never looked up
}

void Conversations::put(Conversation conversation) {
  if (conversation.size() == 0) return;
  const size_t n_bytes = conversation.n_bytes();
  const bool keeps = parts_->keeps(*conversation.session().engine());
  const bool is_answered = is_from(conversation.seen(conversation.size() - 1), Role::kAssistant);
  Parts::Known known{.shared = std::make_shared<const SharedConversation>(std::move(conversation)), .n_bytes = n_bytes};
  std::vector<Parts::Known> gone;  // destroyed after the lock is released
  std::optional<Parts::Known> before;
  const std::lock_guard lock(parts_->mutex);
  if (const auto place = parts_->known.find_number(known.conversation().origin())) {
    // A conversation from which messages were dropped can be continued only at its end. So the conversation that it
    // continued also stays known, for histories that continue earlier.
    if (known.conversation().can_go_on_from(place->n)) before = parts_->known.take_out(*place);
  }
  if (before) known.kept = before->kept;
  if (keeps && known.kept.empty()) known.kept = random_digits();
  const uint64_t number = parts_->known.add(std::move(known));
  if (keeps && is_answered) parts_->write_later(number);
  gone = parts_->make_room();
}

void Conversations::forget_namespace(std::string_view cache_namespace) {
  {
    std::vector<Parts::Known> gone;
    const std::lock_guard lock(parts_->mutex);
    gone = parts_->known.take_out_if([&](const Conversation& one) { return one.cache_namespace() == cache_namespace; });
  }
  parts_->wait_for_writer();  // wait, because the writer may be writing one of these conversations
  if (const Status status = parts_->store->forget(std::string(cache_namespace)); !status.ok()) {
    parts_->remark("cannot delete the stored data of a namespace: " + status.message());
  }
}

void Conversations::forget_engine(const Engine& engine) {
  parts_->wait_for_writer();
  std::vector<Parts::Known> gone;
  const std::lock_guard lock(parts_->mutex);
  gone = parts_->known.take_out_if([&](const Conversation& one) { return one.session().engine().get() == &engine; });
}

ConversationStore& Conversations::store() { return *parts_->store; }
void Conversations::write_behind(std::function<void()> work) { parts_->writer.post_guarded(std::move(work)); }

ConversationStats Conversations::stats() const {
  const HistoryStats kept = parts_->store->is_lasting() ? parts_->store->stats() : HistoryStats();
  const std::lock_guard lock(parts_->mutex);
  ConversationStats stats = parts_->stats;
  stats.n_known = parts_->known.size();
  stats.n_bytes = parts_->known.n_bytes();
  stats.n_waiting = parts_->n_waiting.load();
  stats.kept = kept;
  return stats;
}

}  // namespace ibid::serve

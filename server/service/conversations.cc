#include "server/service/conversations.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "cache/tier/kv_record.h"
#include "server/service/known_conversations.h"
#include "server/service/seen_message.h"
#include "server/service/work_threads.h"
#include "templates/message.h"

namespace ibid::serve {

struct Conversations::Parts {
  using Known = KnownConversations::Known;
  using Place = KnownConversations::Place;
  using FilesPtr = std::shared_ptr<ConversationFiles>;

  explicit Parts(const ConversationOptions& o) : options(o), known(o.budget_bytes) {}

  std::optional<std::pair<Conversation, size_t>> take_known(const Json& messages,
                                                            const std::vector<uint64_t>& hashes,
                                                            std::string_view name);
  std::vector<Known> make_room();

  FilesPtr files_of(const Engine& engine);
  FilesPtr open_files(const Engine& engine);
  void restore(const std::shared_ptr<Engine>& engine, const std::string& name, const Json& messages,
               const std::vector<uint64_t>& hashes);
  void write_later(uint64_t number, FilesPtr to);
  void write(uint64_t number, ConversationFiles& to);
  void wait_for_writer();

  const ConversationOptions options;
  mutable std::mutex mutex;  // guards what follows
  KnownConversations known;
  ConversationStats stats;

  std::mutex opening;        // whoever opens the files of an engine holds it, so that a second request waits for them
  std::mutex files_mutex;    // guards what follows
  std::map<const Engine*, FilesPtr> files;  // nullptr: there are none
  std::atomic<uint64_t> n_waiting{0};
  WorkThreads writer{1};     // last: it ends before what it writes from
};

// A copy of the known conversation that the history goes on from, and at which message; nothing: it is better read
// anew. What was known stays where it is until the copy is put back, so that two may go on from it at once.
std::optional<std::pair<Conversation, size_t>> Conversations::Parts::take_known(const Json& messages,
                                                                                const std::vector<uint64_t>& hashes,
                                                                                std::string_view name) {
  const std::lock_guard lock(mutex);
  const std::optional<Place> place = known.find(messages, hashes, name);
  const bool at_end = place && place->n == place->known->conversation.size();
  if (place && (at_end || place->known->conversation.has_answer(place->n))) {
    if (std::optional<Conversation> copy = known.copy_of(*place)) {
      ++(at_end ? stats.n_continued : stats.n_forked);
      return std::pair(*std::move(copy), place->n);
    }
  }
  ++stats.n_unknown;
  return std::nullopt;
}

// With the lock; the caller destroys what goes without it.
std::vector<KnownConversations::Known> Conversations::Parts::make_room() {
  std::vector<Known> gone = known.make_room();
  stats.n_forgotten += gone.size();
  return gone;
}

// --- files

// Of an engine that a request has asked for; nullptr: it has no directory, or none that can be used.
Conversations::Parts::FilesPtr Conversations::Parts::files_of(const Engine& engine) {
  const std::lock_guard lock(files_mutex);
  const auto place = files.find(&engine);
  return place == files.end() ? nullptr : place->second;
}

Conversations::Parts::FilesPtr Conversations::Parts::open_files(const Engine& engine) {
  if (engine.state().cache_directory().empty() || !engine.state().fingerprint()) return nullptr;
  const std::lock_guard open_lock(opening);
  {
    const std::lock_guard lock(files_mutex);
    if (const auto place = files.find(&engine); place != files.end()) return place->second;
  }
  ConversationFiles::Options to_open;
  to_open.directory = engine.state().cache_directory() + "/conversations";
  to_open.fingerprint = *engine.state().fingerprint();
  to_open.budget_bytes = std::min<uint64_t>(options.file_budget_bytes, engine.state().cache_directory_bytes() / 8);
  to_open.places_of = [&engine](const SavedSession& saved) { return Conversation::places_of(saved, engine); };
  to_open.remark = options.remark;
  auto opened = ConversationFiles::open(std::move(to_open), engine.state().files());
  if (!opened.ok() && options.remark) {
    options.remark("conversations are not kept on disk: " + opened.status().message());
  }
  const std::lock_guard lock(files_mutex);
  return files[&engine] = opened.ok() ? FilesPtr(*std::move(opened)) : nullptr;
}

// Makes what a file knows of a history known, where that is more than memory knows.
void Conversations::Parts::restore(const std::shared_ptr<Engine>& engine, const std::string& name,
                                   const Json& messages, const std::vector<uint64_t>& hashes) {
  const FilesPtr from = open_files(*engine);
  if (from == nullptr) return;
  const auto n_known = [&] {
    const std::optional<Place> place = known.find(messages, hashes, name);
    return place ? place->n : 0;
  };
  std::optional<ConversationFiles::Found> found;
  {
    const std::lock_guard lock(mutex);
    found = from->find(hashes, n_known());
    if (!found || known.has_file(found->name)) return;
  }
  const Result<SavedSession> saved = from->read(found->name);
  if (!saved.ok()) return;
  Result<Conversation> conversation = Conversation::resume(engine, name, *saved);
  if (!conversation.ok() || !conversation->begins(messages, found->n)) {
    const Status other = {ErrorCode::kMismatch, found->name + ": it is not the conversation that it was"};
    const Status why = conversation.ok() ? other : conversation.status();
    if (why.code() != ErrorCode::kOutOfMemory) from->refuse(found->name, why);
    return;
  }
  const size_t n_bytes = conversation->n_bytes();
  std::vector<Known> gone;  // destroyed without the lock
  const std::lock_guard lock(mutex);
  if (known.has_file(found->name) || n_known() >= found->n) return;  // another request was faster
  known.add({.conversation = *std::move(conversation), .n_bytes = n_bytes, .file = found->name});
  ++stats.n_restored;
  gone = make_room();
}

void Conversations::Parts::write_later(uint64_t number, FilesPtr to) {
  ++n_waiting;
  writer.post([this, number, to = std::move(to)] {
    try {
      write(number, *to);
    } catch (const std::bad_alloc&) {
      // Memory knows it still, and its next answer is written again.
    }
    --n_waiting;
  });
}

// What another took the place of meanwhile is not written: the other one is.
void Conversations::Parts::write(uint64_t number, ConversationFiles& to) {
  std::string name;
  SavedSession saved;
  ConversationPlaces places;
  {
    const std::lock_guard lock(mutex);
    const std::optional<Place> place = known.find_number(number);
    if (!place) return;
    name = place->known->file;
    saved = place->known->conversation.to_saved();
    places = place->known->conversation.places();
  }
  to.write(name, saved, std::move(places));
}

void Conversations::Parts::wait_for_writer() {
  std::promise<void> done;
  writer.post([&done] { done.set_value(); });
  done.get_future().wait();
}

// --- Conversations

Conversations::Conversations(const ConversationOptions& options) : parts_(std::make_unique<Parts>(options)) {}
Conversations::~Conversations() = default;

Result<Conversation> Conversations::take(std::shared_ptr<Engine> engine, const std::string& cache_namespace,
                                         const Json& messages, const Json& variables, WhenFull when_full) {
  if (!messages.is_array() || messages.empty()) {
    return {ErrorCode::kInvalidArgument, "messages is an array of at least one message"};
  }
  std::vector<uint64_t> hashes;
  hashes.reserve(messages.size());
  uint64_t hash = Conversation::start_of(cache_namespace, *engine);
  for (const Json& message : messages) hashes.push_back(hash = chain_hash(hash, message));

  parts_->restore(engine, cache_namespace, messages, hashes);
  std::optional<std::pair<Conversation, size_t>> known = parts_->take_known(messages, hashes, cache_namespace);
  if (!known) {
    SessionOptions options;
    options.cache_namespace = cache_namespace;
    options.when_full = when_full;
    options.repair_when_idle = parts_->options.repair_when_idle;
    TRY_ASSIGN(ChatSession session, SessionState::create(engine, {std::move(options), variables}));
    known.emplace(Conversation(cache_namespace, std::move(session)), 0);
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
  return Conversation(cache_namespace, std::move(session));
}

void Conversations::put(Conversation conversation) {
  if (conversation.size() == 0) return;
  const size_t n_bytes = conversation.n_bytes();
  Parts::FilesPtr files = parts_->files_of(*conversation.session().engine());
  const bool is_answered = is_from(conversation.seen(conversation.size() - 1), Role::kAssistant);
  Parts::Known known{.conversation = std::move(conversation), .n_bytes = n_bytes};
  std::vector<Parts::Known> gone;  // destroyed without the lock
  std::optional<Parts::Known> before;
  const std::lock_guard lock(parts_->mutex);
  if (const auto place = parts_->known.find_number(known.conversation.origin())) {
    // What a full context took messages from can be left at its end alone: then the shorter one stays, too.
    if (known.conversation.can_go_on_from(place->n)) before = parts_->known.take_out(*place);
  }
  if (before) known.file = before->file;
  if (files != nullptr && known.file.empty()) known.file = ConversationFiles::new_name();
  const uint64_t number = parts_->known.add(std::move(known));
  if (files != nullptr && is_answered) parts_->write_later(number, std::move(files));
  gone = parts_->make_room();
}

void Conversations::forget_namespace(std::string_view cache_namespace) {
  {
    std::vector<Parts::Known> gone;
    const std::lock_guard lock(parts_->mutex);
    gone = parts_->known.take_out_if([&](const Conversation& one) { return one.cache_namespace() == cache_namespace; });
  }
  parts_->wait_for_writer();  // it may be writing one of them
  const std::lock_guard lock(parts_->files_mutex);
  for (const auto& [engine, files] : parts_->files) {
    if (files != nullptr) files->forget_namespace(digest_of_namespace(cache_namespace));
  }
}

void Conversations::forget_engine(const Engine& engine) {
  parts_->wait_for_writer();
  {
    const std::lock_guard lock(parts_->files_mutex);
    parts_->files.erase(&engine);
  }
  std::vector<Parts::Known> gone;
  const std::lock_guard lock(parts_->mutex);
  gone = parts_->known.take_out_if([&](const Conversation& one) { return one.session().engine().get() == &engine; });
}

ConversationStats Conversations::stats() const {
  ConversationFileStats on_disk;
  {
    const std::lock_guard lock(parts_->files_mutex);
    for (const auto& [engine, files] : parts_->files) {
      if (files != nullptr) on_disk += files->stats();
    }
  }
  const std::lock_guard lock(parts_->mutex);
  ConversationStats stats = parts_->stats;
  stats.n_known = parts_->known.size();
  stats.n_bytes = parts_->known.n_bytes();
  stats.n_waiting = parts_->n_waiting.load();
  stats.files = on_disk;
  return stats;
}

}  // namespace ibid::serve

// A session as a file, and back: what is saved is the messages and the ids that were sampled; the transcript is made of
// them again by planning turn after turn, without the model.
#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/file_ops.h"
#include "cache/store/token_prefix.h"
#include "runtime/session/message_checks.h"
#include "runtime/session/session_state.h"
#include "tokenizer/stream_decoder.h"

namespace ibid {
namespace {

// The reply as a turn would append it; nothing when the model does not have its ids.
std::optional<SampledReply> reply_of(const SavedReply& saved, const Tokenizer& tokenizer) {
  const auto is_known = [&](TokenId id) { return static_cast<size_t>(id) < tokenizer.vocab_size(); };
  const bool knows_end = !saved.end_of_turn || is_known(*saved.end_of_turn);
  if (!knows_end || !std::all_of(saved.ids.begin(), saved.ids.end(), is_known)) return std::nullopt;
  SampledReply reply;
  reply.ids = saved.ids;
  StreamDecoder decoder(tokenizer);
  for (const TokenId id : saved.ids) {
    reply.text += decoder.push(id);
    reply.text_ends.push_back(reply.text.size());
  }
  reply.text += decoder.finish();
  if (!reply.text_ends.empty()) reply.text_ends.back() = reply.text.size();
  if (saved.end_of_turn) {
    reply.end_of_turn = saved.end_of_turn;
    reply.end_of_turn_text = tokenizer.token_bytes(*saved.end_of_turn);
  }
  return reply;
}

// The replies of the first n_numbered messages. What the transcript holds of others is of messages that are gone.
std::vector<SavedReply> replies_of(const Transcript& transcript, const Json& messages, size_t n_numbered) {
  std::vector<SavedReply> replies;
  bool has_reply = false;  // of the spans so far, the last reply is one of `replies`
  for (const TranscriptSpan& span : transcript.spans()) {
    const size_t message = span.first_message;
    if (message >= n_numbered) continue;
    const auto ids = transcript.ids().begin() + static_cast<std::ptrdiff_t>(span.id_begin);
    if (span.origin == SpanOrigin::kSampled) {
      const std::string_view text = transcript.bytes().substr(span.byte_begin, span.byte_end - span.byte_begin);
      const bool rises = replies.empty() || replies.back().message < message;
      has_reply = rises && is_reply(messages[message], text);
      if (!has_reply) continue;
      replies.push_back({message, {ids, ids + static_cast<std::ptrdiff_t>(span.token_ends.size())}, std::nullopt});
    } else if (span.origin == SpanOrigin::kEndOfTurn && has_reply) {
      replies.back().end_of_turn = *ids;
    }
  }
  return replies;
}

}  // namespace

SavedSession ChatSession::State::to_saved() const {
  SavedSession saved;
  saved.model_name = engine->name();
  saved.variables = options.variables;
  saved.now = options.now;
  saved.when_full = options.when_full;
  saved.repair_when_idle = options.repair_when_idle;
  saved.messages = messages;
  saved.pinned = pinned;
  saved.replies = replies_of(transcript, messages, n_numbered);
  saved.usage = usage;
  saved.n_ids = transcript.ids().size();
  return saved;
}

Status ChatSession::State::replay(const SavedSession& saved) {
  messages = Json::array();
  losses = saved.losses;
  Turn unused;
  for (size_t i = 0; i < saved.replies.size(); ++i) {
    while (messages.size() < saved.replies[i].message) messages.push_back(saved.messages[messages.size()]);
    std::optional<SampledReply> reply = reply_of(saved.replies[i], engine->tokenizer());
    Result<PromptDelta> delta = planner.plan(messages, transcript, unused.work, unused.timings);
    if (!delta.ok() && delta.status().code() == ErrorCode::kOutOfMemory) return delta.status();
    if (!delta.ok() || !reply) {
      if (delta.ok()) planner.given_up(*delta);
      losses.n_replies += saved.replies.size() - i;
      break;
    }
    planner.append_reply(*delta, *std::move(reply), messages.size());
    transcript.apply(std::move(delta->patch));
    planner.applied(*delta);
  }
  messages = saved.messages;
  n_numbered = messages.size();
  pinned = saved.pinned;
  usage = saved.usage;
  return {};
}

void ChatSession::State::resume_kv(std::optional<KvCacheEntry> entry) {
  const TokenSpan ids = transcript.ids();
  if (entry) {
    const size_t n_same = common_prefix_length(entry->tokens(), ids);
    if (n_same < entry->length() && losses.rows.ok()) {
      losses.rows = {ErrorCode::kMismatch, "behind " + std::to_string(n_same) + " ids they are of another text"};
    }
    entry->slice_to_length(n_same);
  }
  if (ids.empty()) return;
  WorkCounters unused;
  Found found = look_up(ids.first(ids.size() - 1), unused);
  if (entry && entry->length() > found.length()) {
    foreign = std::make_shared<const PrivateNamespace>(engine->store());
    kv = *std::move(entry);
  } else {
    kv = std::move(found.entry);
  }
  n_read = std::max(kv.length(), ids.size() - 1);
  register_entry(kv, foreign, Extent::kAll, &at_rest);
  rest_kv();
}

Status ChatSession::State::save(const std::string& path, bool with_kv, SaveReport& report) const {
  if (!with_kv) return write_session_file(engine->files(), path, to_saved(), nullptr, {});
  if (!engine->fingerprint()) {
    return {ErrorCode::kUnsupported, "keys and values are saved by an engine that knows its fingerprint: load it with "
                                     "EngineOptions::fingerprint or a cache directory"};
  }
  const KvPageIdentity identity{*engine->fingerprint(), digest_of_namespace(options.cache_namespace)};
  TRY_ASSIGN(KvCacheEntry entry, held_kv());
  if (entry.length() < n_read) {
    WorkCounters unused;
    Found found = look_up(TokenSpan(transcript.ids()).first(n_read), unused);
    if (found.length() > entry.length()) entry = std::move(found.entry);
  }
  TRY(write_session_file(engine->files(), path, to_saved(), &entry, identity));
  report.n_with_rows = entry.length();
  return {};
}

Result<std::unique_ptr<ChatSession::State>> ChatSession::State::load(std::shared_ptr<Engine> engine,
                                                                     const std::string& path,
                                                                     const LoadOptions& load_options) {
  std::optional<KvPageIdentity> identity;  // records of another namespace are not used
  if (const std::optional<Fingerprint>& fingerprint = engine->fingerprint()) {
    identity = {*fingerprint, digest_of_namespace(load_options.cache_namespace)};
  }
  TRY_ASSIGN(LoadedSession loaded,
             read_session_file(engine->files(), path, engine->pool(), identity ? &*identity : nullptr));
  const SavedSession& saved = loaded.session;
  SessionOptions options;
  options.variables = saved.variables;
  options.now = saved.now;
  options.cache_namespace = load_options.cache_namespace;
  options.when_full = saved.when_full;
  options.repair_when_idle = saved.repair_when_idle;
  options.system = leading_system_text(saved.messages);
  auto state = std::make_unique<State>(std::move(engine), std::move(options));
  TRY(state->replay(saved));
  state->resume_kv(std::move(loaded.kv));
  return state;
}

}  // namespace ibid

// Saving and loading sessions. A file has the messages and the sampled tokens; loading rebuilds the transcript by
// planning each turn again, without running the model.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/file_ops.h"
#include "runtime/session/session_rows.h"
#include "runtime/session/session_state.h"
#include "runtime/session/turn_reply.h"
#include "templates/message.h"
#include "tokenizer/tokenizer.h"

namespace ibid {
namespace {

std::string text_of(TokenSpan ids, const Tokenizer& tokenizer, TokenSpan shown, std::vector<size_t>& ends) {
  std::string text;
  ends.clear();
  StreamDecoder decoder(tokenizer, shown);
  for (const TokenId id : ids) {
    text += decoder.push(id);
    ends.push_back(text.size());
  }
  text += decoder.finish();
  if (!ends.empty()) ends.back() = text.size();
  return text;
}

// Returns the reply as a turn would append it; nullopt if the model lacks one of its tokens. The file does not say
// which special tokens its text shows, so tries the possible sets until the text is that of the message.
std::optional<SampledReply> reply_of(const SavedReply& saved, const Json& message, const EngineState& engine) {
  const Tokenizer& tokenizer = engine.tokenizer();
  const auto is_known = [&](TokenId id) { return static_cast<size_t>(id) < tokenizer.vocab_size(); };
  const bool knows_end = !saved.end_of_turn || is_known(*saved.end_of_turn);
  if (!knows_end || !std::all_of(saved.ids.begin(), saved.ids.end(), is_known)) return std::nullopt;
  SampledReply reply;
  reply.ids = saved.ids;
  for (const Tokens& shown : {shown_tokens(engine, true), shown_tokens(engine, false), Tokens()}) {
    reply.text = text_of(saved.ids, tokenizer, shown, reply.text_ends);
    if (is_reply(message, reply.text)) break;
  }
  if (saved.end_of_turn) {
    reply.end_of_turn = saved.end_of_turn;
    reply.end_of_turn_text = tokenizer.token_bytes(*saved.end_of_turn);
  }
  return reply;
}

// Returns the replies to the first n_numbered messages. Other replies of the transcript belong to removed messages.
std::vector<SavedReply> replies_of(const Transcript& transcript, const MessageList& messages, size_t n_numbered) {
  std::vector<SavedReply> replies;
  bool has_reply = false;  // the last reply so far is in `replies`
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

// Positions at which a loaded conversation is likely to resume: its end; the end of the last prompt less one token, to
// regenerate; and the start of the last user message, to edit it. At most n_tokens.
std::array<size_t, 3> next_places(const Dialogue& dialogue, size_t n_tokens) {
  size_t turn_begin = 0, prompt_end = 0, reply_end = 0;  // positions of the last answer so far
  for (const TranscriptSpan& span : dialogue.transcript().spans()) {
    if (span.origin != SpanOrigin::kSampled) continue;
    turn_begin = reply_end;
    prompt_end = span.id_begin;
    reply_end = span.id_begin + span.token_ends.size();
  }
  if (turn_begin == 0) turn_begin = dialogue.first_turn_boundary();
  return {n_tokens, std::min(n_tokens, std::max<size_t>(prompt_end, 1) - 1), std::min(n_tokens, turn_begin)};
}

// Restores messages and transcript. If the model lacks tokens of a reply, or the template rejects its prompt, this
// reply and later ones keep only their text and are added to load_warnings. REQUIRES: the session has no messages.
Status replay(const SavedSession& saved, SessionState& session) {
  Dialogue& dialogue = session.branch.dialogue;
  const auto message = [&](size_t i) { return saved.messages.begin() + static_cast<std::ptrdiff_t>(i); };
  // Adds the saved messages before number `end`.
  const auto add_up_to = [&](size_t end) {
    const size_t n = dialogue.messages().size();
    if (n < end) dialogue.apply({.n_kept = n, .added = std::vector<Json>(message(n), message(end))}).commit();
  };
  dialogue.apply({.n_kept = 0}).commit();
  session.load_warnings = saved.load_warnings;
  for (size_t i = 0; i < saved.replies.size(); ++i) {
    add_up_to(saved.replies[i].message);
    std::optional<SampledReply> reply =
        reply_of(saved.replies[i], *message(saved.replies[i].message), session.engine->state());
    Result<PromptDelta> delta = dialogue.plan();
    if (!delta.ok() && delta.status().code() == ErrorCode::kOutOfMemory) return delta.status();
    if (!delta.ok() || !reply) {
      session.load_warnings.n_replies += saved.replies.size() - i;
      break;
    }
    dialogue.append_answer(*delta, *std::move(reply), *message(saved.replies[i].message));
  }
  add_up_to(saved.messages.size());
  dialogue.restore(saved.pinned, saved.usage);
  return {};
}

Result<std::unique_ptr<SessionState>> replayed(std::shared_ptr<Engine> engine, const SavedSession& saved,
                                               const LoadOptions& load_options) {
  SessionState::Setup setup;
  setup.variables = saved.variables;
  SessionOptions& options = setup.options;
  options.now = saved.now;
  options.cache_namespace = load_options.cache_namespace;
  options.when_full = saved.when_full;
  options.repair_when_idle = saved.repair_when_idle;
  options.system = leading_system_text(saved.messages);
  auto state = std::make_unique<SessionState>(std::move(engine), std::move(setup));
  TRY(replay(saved, *state));
  return state;
}

}  // namespace

SavedSession to_saved(const SessionState& session) {
  SavedSession saved;
  saved.model_name = session.engine->name();
  saved.variables = session.variables;
  saved.now = session.options.now;
  saved.when_full = session.options.when_full;
  saved.repair_when_idle = session.options.repair_when_idle;
  const Dialogue& dialogue = session.branch.dialogue;
  saved.messages = dialogue.messages().json();
  saved.pinned = dialogue.pinned();
  saved.replies = replies_of(dialogue.transcript(), dialogue.messages(), dialogue.n_numbered());
  saved.usage = dialogue.usage();
  saved.n_tokens = dialogue.transcript().ids().size();
  return saved;
}

Status save_session(const SessionState& session, const std::string& path, bool with_kv, SaveReport& report) {
  const EngineState& engine = session.engine->state();
  if (!with_kv) return write_session_file(engine.files(), path, to_saved(session), nullptr, {});
  if (!engine.fingerprint()) {
    return {ErrorCode::kUnsupported,
            "saving keys and values needs a model fingerprint: load the engine with EngineOptions::fingerprint or a "
            "cache directory"};
  }
  TRY_ASSIGN(const Fingerprint fingerprint, engine.fingerprint()->get());
  const KvPageIdentity identity{fingerprint, digest_of_namespace(session.options.cache_namespace)};
  TRY_ASSIGN(KvCacheEntry entry, session.branch.cache.find_all(session.branch.dialogue.transcript().ids()));
  const std::array<size_t, 3> places = next_places(session.branch.dialogue, entry.length());
  TRY(write_session_file(engine.files(), path, to_saved(session), &entry, identity, states_for(entry, places)));
  report.n_with_kv = entry.length();
  return {};
}

Result<ChatSession> resume_session(std::shared_ptr<Engine> engine, const SavedSession& saved,
                                   const LoadOptions& load_options) {
  CHECK(engine != nullptr);
  return guarded([&]() -> Result<ChatSession> {
    TRY_ASSIGN(std::unique_ptr<SessionState> state, replayed(std::move(engine), saved, load_options));
    return ChatSession(std::move(state));
  });
}

Result<std::unique_ptr<SessionState>> load_session(std::shared_ptr<Engine> engine, const std::string& path,
                                                   const LoadOptions& load_options) {
  std::optional<KvPageIdentity> identity;  // records of another namespace are not used
  if (const auto& later = engine->state().fingerprint()) {
    TRY_ASSIGN(const Fingerprint fingerprint, later->get());
    identity = {fingerprint, digest_of_namespace(load_options.cache_namespace)};
  }
  TRY_ASSIGN(LoadedSession loaded,
             read_session_file(engine->state().files(), path, engine->state().pool(), identity ? &*identity : nullptr));
  TRY_ASSIGN(std::unique_ptr<SessionState> state, replayed(std::move(engine), loaded.session, load_options));
  const size_t n_in_file = loaded.kv ? loaded.kv->length() : 0;
  const size_t n_same = state->branch.cache.adopt(std::move(loaded.kv), state->branch.dialogue.transcript().ids());
  if (n_same < n_in_file && state->load_warnings.rows.ok()) {
    state->load_warnings.rows = {ErrorCode::kMismatch, "the saved tokens differ from the conversation after " +
                                                           std::to_string(n_same) + " tokens"};
  }
  return state;
}

}  // namespace ibid

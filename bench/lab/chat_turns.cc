#include "bench/lab/chat_turns.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/clock.h"
#include "bench/lab/model_work.h"
#include "runtime/generate/feeding.h"
#include "runtime/session/session_state.h"
#include "sampling/sampler.h"
#include "templates/chat_template.h"
#include "templates/message.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

namespace {

constexpr const char* kWords[] = {"river",  "lantern", "copper", "window", "harvest", "signal", "winter", "market",
                                  "garden", "engine",  "letter", "bridge", "silver",  "forest", "island", "thread"};
constexpr size_t kMostTokensOfWord = 8;  // bytes of the longest word with its blank; a token has at least one byte

}  // namespace

std::string text_of_tokens(const Tokenizer& tokenizer, std::string_view lead, size_t n_tokens, size_t seed) {
  const size_t stride = 7 + 2 * (seed / std::size(kWords));  // odd, so that all of the 16 words are used
  std::string text(lead);
  for (size_t word = 0;;) {
    const size_t n = tokenizer.encode(text, TextOrigin::kInput).size();
    if (n >= n_tokens) return text;
    const size_t more = std::max<size_t>(1, (n_tokens - n) / kMostTokensOfWord);
    for (size_t i = 0; i < more; ++i, ++word) {
      text += text.empty() ? "" : " ";
      text += kWords[(word * stride + word / std::size(kWords) * 3 + seed * 5) % std::size(kWords)];
    }
  }
}

Result<Tokens> prompt_of(const Engine& engine, const Json& messages) {
  const TemplateVariables variables{.values = {{"add_generation_prompt", true}}};
  TRY_ASSIGN(const MarkedText text, engine.state().chat_template()->render(messages, variables));
  IncrementalEncoder encoder(engine.state().tokenizer());
  Tokens prompt;
  for (const MarkedText::Run run : text.runs()) {
    const IncrementalEncoder::Delta delta = encoder.append(run.bytes, run.origin);
    prompt.resize(delta.keep);
    prompt.insert(prompt.end(), delta.tokens.begin(), delta.tokens.end());
  }
  return prompt;
}

Result<size_t> tokens_around_first_message(const Engine& engine) {
  constexpr const char* kProbe = "river";
  Json messages = Json::array();
  messages.push_back(make_message(Role::kUser, kProbe));
  TRY_ASSIGN(const Tokens prompt, prompt_of(engine, messages));
  const size_t own = engine.state().tokenizer().encode(kProbe, TextOrigin::kInput).size();
  return saturating_sub(prompt.size(), own);
}

namespace {

constexpr size_t kTemplateTokens = 12;  // tokens that ChatML adds around a message

std::string system_of(const Tokenizer& tokenizer, size_t n_tokens) {
  std::string text = "You are a helpful assistant. ";
  while (n_tokens > 0 && tokenizer.encode(text, TextOrigin::kInput).size() < n_tokens) {
    text += "The committee met on a rainy day and wrote down every number it could find. ";
  }
  return text;
}

// Returns a message of kConversationMessage tokens, including those of the template around it. The words differ from
// turn to turn.
std::string message_of_turn(const Tokenizer& tokenizer, size_t conversation, size_t turn) {
  std::string text = "Please go on, and bring in these words:";
  for (size_t i = 0; tokenizer.encode(text, TextOrigin::kInput).size() < kConversationMessage - kTemplateTokens; ++i) {
    text += std::string(" ") + kWords[(i * 7 + turn * 5 + conversation * 3) % std::size(kWords)];
  }
  return text + ".";
}

// Computes the first token of the answer to `messages` without any cache: renders, tokenises, prefills and samples.
Result<double> cold_ttft_ms(Engine& engine, const Json& messages) {
  const int64_t start = engine.state().clock().steady_ns();
  TRY_ASSIGN(const Tokens prompt, prompt_of(engine, messages));
  KvCacheEntry entry(engine.state().pool());
  Logits logits;
  TRY(feed(engine.state().scheduler(), entry, prompt, WantLogits::kLast, {}, logits));
  TRY_ASSIGN(Sampler sampler, Sampler::create({.temperature = 0}));
  TRY(sampler.sample(logits.row(0)).status());
  return milliseconds_since(engine.state().clock(), start);
}

// Measurements of one turn of the growing conversation, in all repetitions.
struct Measured {
  std::vector<double> warm_ms, cold_ms;
  Turn first;
};

Status converse(const std::shared_ptr<Engine>& engine, size_t conversation, std::vector<Measured>& turns) {
  TRY_ASSIGN(ChatSession session, ChatSession::create(engine));
  TurnOptions options;
  options.sampler.seed = conversation + 1;
  options.min_tokens = options.max_tokens = kConversationAnswer;
  TRY(session.send(message_of_turn(engine->state().tokenizer(), conversation, kConversationTurns), options).status());
  for (size_t k = 0; k < turns.size(); ++k) {
    const std::string message = message_of_turn(engine->state().tokenizer(), conversation, k);
    Json prompt = session.state().messages();
    prompt.push_back(make_message(Role::kUser, message));
    TRY_ASSIGN(Turn turn, session.send(message, options));
    TRY_ASSIGN(const double cold_ms, cold_ttft_ms(*engine, prompt));
    turns[k].warm_ms.push_back(turn.timings.ttft_ms);
    turns[k].cold_ms.push_back(cold_ms);
    if (conversation == 0) turns[k].first = std::move(turn);
  }
  return {};
}

// Returns the share of the time to the first token that is spent outside the model: rendering, tokenising, matching,
// sampling.
double outside_model_percent(const Timings& timings) {
  return timings.ttft_ms > 0 ? 100 * (timings.ttft_ms - timings.prefill_ms) / timings.ttft_ms : 0;
}

Figure conversation_figure(size_t turn, const Measured& measured) {
  const Usage& usage = measured.first.usage;
  const WorkCounters& work = measured.first.work;
  Figure figure;
  figure.kind = find_figure_kind("conversation");
  figure.at = {turn};
  figure.value = spread_of(measured.warm_ms);
  const double again_ms = spread_of(measured.cold_ms).median;
  figure.details = {{"n_prompt", usage.n_prompt},
                    {"n_cached", usage.n_cached},
                    {"n_prefilled", usage.n_prefilled},
                    {"again_ms", again_ms},
                    {"again_ratio", again_ms / figure.value.median},
                    {"besides_model_percent", outside_model_percent(measured.first.timings)},
                    {"bytes_rendered", work.bytes_rendered},
                    {"bytes_compared", work.bytes_compared},
                    {"bytes_tokenized", work.bytes_tokenized},
                    {"tokens_compared", work.tokens_compared},
                    {"kv_bytes_copied", work.kv_bytes_copied},
                    {"pages_touched", work.pages_touched}};
  return figure;
}

}  // namespace

Status bench_chat_turns(const std::shared_ptr<Engine>& engine, size_t system_tokens, const FigureSink& sink) {
  TRY_ASSIGN(ChatSession session,
             ChatSession::create(engine, {.system = system_of(engine->state().tokenizer(), system_tokens)}));
  TurnOptions options;
  options.sampler.temperature = 0;
  options.max_tokens = kChatReplyTokens;
  for (size_t turn = 1; turn <= kChatTurns; ++turn) {
    const size_t history = session.ids().size();
    if (std::max(history, system_tokens) + kChatTurnTokens > engine->max_seq_len()) break;
    const std::string message = "Turn " + std::to_string(turn) +
                                ": please add one more short sentence about the harbour, the old bridge, the market "
                                "in the square and the people who cross it every morning.";
    TRY_ASSIGN(const Turn done, session.send(message, options));
    Figure figure;
    figure.kind = find_figure_kind("chat_turn");
    figure.at = {system_tokens, turn};
    figure.value = {done.timings.ttft_ms, done.timings.ttft_ms, done.timings.ttft_ms};
    figure.note = "history " + std::to_string(history) + ", read " + std::to_string(done.usage.n_prefilled);
    figure.details = {{"history", history},
                      {"cached", done.usage.n_cached},
                      {"n_prefilled", done.usage.n_prefilled},
                      {"n", done.usage.n_decoded},
                      {"total_ms", done.timings.total_ms},
                      {"besides_model_percent", outside_model_percent(done.timings)}};
    sink(figure);
  }
  return {};
}

Status bench_conversation(const std::shared_ptr<Engine>& engine, size_t n_conversations, const FigureSink& sink) {
  const size_t room = saturating_sub(engine->max_seq_len(), kConversationStart);
  std::vector<Measured> turns(std::min(kConversationTurns, room / kConversationStep));
  if (turns.empty() || n_conversations == 0) return {};
  for (size_t c = 0; c < n_conversations; ++c) TRY(converse(engine, c, turns));
  for (size_t k = 0; k < turns.size(); ++k) sink(conversation_figure(k + 1, turns[k]));
  return {};
}

}  // namespace ibid

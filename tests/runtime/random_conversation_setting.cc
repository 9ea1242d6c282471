#include "tests/runtime/random_conversation_setting.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/check.h"
#include "templates/chat_template.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/runtime/tiny_chat.h"
#include "tests/support/paths.h"

namespace ibid {
namespace {

// Has messages of a role that the model does not see.
constexpr const char* kHidesNotes =
    "{% for message in messages %}{% if message['role'] != 'note' %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
constexpr const char* kAlternates =
    "{% set first = 1 if messages and messages[0]['role'] == 'system' else 0 %}"
    "{% for message in messages %}"
    "{% if loop.index0 >= first and (message['role'] == 'user') != ((loop.index0 - first) % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
// Renders earlier answers in capitals: every turn rewrites the one before.
constexpr const char* kWritesCapitals =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{{ message['content'] | upper if message['role'] == 'assistant' else message['content'] }}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
// Renders the last question differently, so each prompt rewrites the one before.
constexpr const char* kMarksTheLast =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + ('!' if loop.last else '') + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

const std::vector<const char*> kTemplates = {kChatMl,     kStripsThinking, kTrims,       kHidesNotes,
                                             kAlternates, kWritesCapitals, kMarksTheLast};

}  // namespace

RandomSetting::RandomSetting(uint64_t seed, RandomKind kind) {
  Dice dice(seed * 2 + 1);
  chat_template = dice.pick(kTemplates);
  wants_alternation = chat_template == kAlternates;
  const FakeTokenizer tokenizer;
  model = {.vocab_size = tokenizer.vocab_size(),
           .max_seq_len = 150 + dice.below(400),
           .max_chunk = dice.pick<size_t>({16, 32, 64}),
           .n_layers = 1 + dice.below(3)};
  // From too small for one conversation to enough for all.
  n_pages = 3 + dice.below(dice.chance(50) ? 12 : 60);
  tier = dice.chance(50);
  inclination.assign(tokenizer.vocab_size(), 0);
  const auto lean = [&](std::string_view piece, size_t at_most) {
    inclination[static_cast<size_t>(*tokenizer.find_token(piece))] = static_cast<float>(dice.below(at_most + 1));
  };
  for (const char* piece : {"<|im_end|>", "<|endoftext|>"}) lean(piece, 8);
  for (const char* piece : {"<|tool|>", "<|im_start|>", "<think>", "</think>", "\n\n", "Hello", "lo", "ab", "a"}) {
    lean(piece, 6);
  }
  for (const char* part : {"\xE2", "\xF0", "\x9F", "\x82", "\xAC"}) lean(part, 6);
  const std::string system = dice.pick<std::string>({"", "", "be the best", "be " + std::string(70, 'z')});
  session = {.system = system,
             .now = "2026-01-31T12:00:00",
             .when_full = dice.pick<WhenFull>({WhenFull::kError, WhenFull::kDropOldestTurns, WhenFull::kDropOldestTurns,
                                               WhenFull::kCutNewestMessage}),
             .repair_when_idle = dice.chance(25)};
  model.recurrent = dice.chance(25);
  n_states = 6 + dice.below(dice.chance(50) ? 6 : 100);
  if (dice.chance(25)) {
    model.window = dice.pick<size_t>({1, 16, 50});
    model.max_seq_len += 300;  // positions whose window parts may be evicted
    n_pages += 5;
  }
  if (kind != RandomKind::kAny) shorten_pool(dice);
  if (kind == RandomKind::kCheckpoint) take_checkpoint(dice);
}

void RandomSetting::shorten_pool(Dice& dice) {
  const size_t which = dice.below(3);
  model.recurrent = which != 1;
  model.window = which == 0 ? 0 : dice.pick<size_t>({1, 16, 50});
  n_pages = 2 + dice.below(8);
  n_states = 3 + dice.below(4);
}

void RandomSetting::take_checkpoint(Dice& dice) {
  static const std::vector<std::string> kNames = {"qwen3_5_text", "jamba",       "lfm2",   "kimi_linear", "mamba2",
                                                  "falcon_h1",    "olmo_hybrid", "zamba2", "gemma3_text", "gpt_oss"};
  checkpoint = shared_dir().value() + "/reference/tiny/" + dice.pick(kNames);
  kv_dtype = dice.pick<KvDType>({KvDType::kF32, KvDType::kF16, KvDType::kInt8, KvDType::kK8V4, KvDType::kInt4});
}

void Trap::set(size_t n_layers, std::function<Status()> action) {
  const std::lock_guard lock(mutex_);
  left_ = n_layers;
  action_ = std::move(action);
}

Status Trap::passed() {
  const std::lock_guard lock(mutex_);
  if (left_ == 0 || --left_ > 0) return {};
  return action_();
}

RandomProcess::RandomProcess(const RandomSetting& setting, FileOps& files, std::string directory)
    : directory_(std::move(directory)) {
  EngineParts parts;
  std::unique_ptr<LanguageModel> model = load_model(setting);
  const KvLayout& layout = model->kv_layout();
  parts.kv_budget_bytes = setting.n_pages * layout.page_bytes() + setting.n_states * layout.state_bytes();
  parts.model = std::move(model);
  auto tokenizer =
      std::make_unique<FakeTokenizer>(setting.checkpoint.empty() ? FakeTokenizer() : FakeTokenizer::small());
  tokenizer_ = tokenizer.get();
  parts.tokenizer = std::move(tokenizer);
  parts.chat_template = *ChatTemplate::compile(setting.chat_template);
  parts.fingerprint = FingerprintBuilder().add("model", "random").finish();
  parts.files = &files;
  if (setting.tier) {
    parts.cache_directory = directory_ + "/kv";
    parts.cache_directory_bytes = 1u << 20;
  }
  EXPECT_TRUE(files.make_directory(directory_).ok());
  engine_ = *make_engine(std::move(parts));
}

std::unique_ptr<LanguageModel> RandomProcess::load_model(const RandomSetting& setting) const {
  if (!setting.checkpoint.empty()) {
    auto model = load_tiny_checkpoint(setting.checkpoint, {.kv_dtype = setting.kv_dtype,
                                                           .n_threads = 1,
                                                           .max_seq_len = setting.model.max_seq_len,
                                                           .max_chunk = setting.model.max_chunk});
    model->set_layer_observer([trap = trap_](size_t) { (void)trap->passed(); });
    return model;
  }
  auto model = std::make_unique<FakeModel>(setting.model);
  model->before_layer = [trap = trap_](size_t, size_t) { return trap->passed(); };
  model->change_logits = [inclination = setting.inclination](TokenSpan, std::span<float> row) {
    for (size_t id = 0; id < inclination.size(); ++id) row[id] += inclination[id];
  };
  return model;
}

ChatSession RandomProcess::new_session(SessionOptions options) const {
  return *ChatSession::create(engine_, std::move(options));
}

Result<ChatSession> RandomProcess::load(const std::string& name) const {
  return ChatSession::load(engine_, path(name));
}

Status RandomProcess::save(const ChatSession& session, const std::string& name, bool with_kv) const {
  return session.save(path(name), {.with_kv = with_kv});
}

Result<std::string> RandomProcess::render(const Json& messages, const SessionOptions& options) const {
  ConversationRenderer renderer(*engine_->state().chat_template(), {.values = Json::object(), .now = options.now});
  TRY_ASSIGN(const ConversationRenderer::Delta whole, renderer.render(messages, 0, true));
  return whole.text.bytes();
}

}  // namespace ibid

// The tokenizer and the chat template on the real model's vocabulary: whole texts, and the delta of one message.
//   bench_tokenizer [MODEL] [Google Benchmark's options]
//   bench_tokenizer --row TEXT MODEL      # a JSON line: load, encode, decode and append, in CPU time of one thread
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/models/model_catalog.h"
#include "model/load_model.h"
#include "templates/chat_template.h"
#include "templates/message.h"
#include "tokenizer/tokenizer.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

template <typename T>
T take(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "bench_tokenizer: %s\n", result.status().message().c_str());
    std::exit(1);
  }
  return *std::move(result);
}

std::string english(size_t bytes) {
  constexpr const char* kSentences[] = {
      "The river runs past the mill and down to the sea. ", "She had counted 1,024 lanterns by the 3rd of May! ",
      "\"Why,\" he asked, \"would anybody build a bridge here?\"\n", "It's not that they couldn't; they wouldn't.\n\n"};
  std::string text;
  for (size_t i = 0; text.size() < bytes; ++i) text += kSentences[(i * 7 + i / 3) % std::size(kSentences)];
  return text;
}

void encode(benchmark::State& state, const Tokenizer& tokenizer) {
  const std::string text = english(static_cast<size_t>(state.range(0)));
  size_t n_tokens = 0;
  for (auto _ : state) n_tokens += tokenizer.encode(text, TextOrigin::kInput).size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["tokens/s"] = benchmark::Counter(static_cast<double>(n_tokens), benchmark::Counter::kIsRate);
}

// Measures appending one message of 240 bytes to a conversation of range(0) bytes.
void append_message(benchmark::State& state, const Tokenizer& tokenizer) {
  IncrementalEncoder before(tokenizer);
  before.append(english(static_cast<size_t>(state.range(0))), TextOrigin::kInput);
  const std::string message = english(240);
  for (auto _ : state) {
    IncrementalEncoder encoder = before;
    benchmark::DoNotOptimize(encoder.append(message, TextOrigin::kInput));
  }
}

void decode(benchmark::State& state, const Tokenizer& tokenizer) {
  const Tokens ids = tokenizer.encode(english(20000), TextOrigin::kInput);
  for (auto _ : state) {
    StreamDecoder decoder(tokenizer);
    for (const TokenId id : ids) benchmark::DoNotOptimize(decoder.push(id));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * ids.size()));
}

Json conversation(size_t n_messages) {
  Json messages = Json::array();
  for (size_t i = 0; i < n_messages; ++i) {
    messages.push_back(make_message(i % 2 == 0 ? Role::kUser : Role::kAssistant, english(400)));
  }
  return messages;
}

// Measures rendering the prompt after one more exchange, with the previous prompt already rendered.
void render_next(benchmark::State& state, const ChatTemplate& chat_template) {
  const size_t n = static_cast<size_t>(state.range(0));
  ConversationRenderer before(chat_template, {});
  take(before.render(conversation(n - 2), 0, true));
  const Json messages = conversation(n);
  size_t n_rendered = 0;
  for (auto _ : state) {
    ConversationRenderer renderer = before;
    n_rendered = take(renderer.render(messages, n - 2, true)).messages_rendered;
  }
  state.counters["messages"] = static_cast<double>(n_rendered);
}

void render_all(benchmark::State& state, const ChatTemplate& chat_template) {
  const Json messages = conversation(static_cast<size_t>(state.range(0)));
  const TemplateVariables variables{.values = {{"add_generation_prompt", true}}};
  for (auto _ : state) benchmark::DoNotOptimize(take(chat_template.render(messages, variables)));
}

// Returns the minimum CPU time of a few calls, in seconds, because other work on the machine can only add to it.
template <typename Call>
double seconds(int n_calls, Call call) {
  double least = 1e9;
  for (; n_calls > 0; --n_calls) {
    const std::clock_t begin = std::clock();
    call();
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

void print_row(const char* text_path, const char* model) {
  std::ifstream stream(text_path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto file = take(open_model_file(take(resolve_model(model)), {.vocabulary_only = true}));
  std::unique_ptr<Tokenizer> tokenizer;
  const double load = seconds(5, [&] { tokenizer = take(load_tokenizer(*file)); });
  Tokens ids;
  const double encode = seconds(3, [&] { ids = tokenizer->encode(text, TextOrigin::kInput); });
  std::string decoded;
  const double decode = seconds(3, [&] { decoded = tokenizer->decode(ids); });

  IncrementalEncoder before(*tokenizer);
  before.append(std::string_view(text).substr(0, text.size() / 10), TextOrigin::kInput);
  const std::string_view message = std::string_view(text).substr(text.size() / 10, 240);
  constexpr int kMessages = 1000;
  std::vector<IncrementalEncoder> conversations(kMessages, before);
  const double append = seconds(1, [&] {
    for (IncrementalEncoder& one : conversations) benchmark::DoNotOptimize(one.append(message, TextOrigin::kInput));
  });
  const Json row = {{"bytes", text.size()},
                    {"tokens", ids.size()},
                    {"load_ms", load * 1e3},
                    {"encode_mb_s", static_cast<double>(text.size()) / encode / 1e6},
                    {"decode_mb_s", static_cast<double>(decoded.size()) / decode / 1e6},
                    {"append_us", append / kMessages * 1e6}};
  std::puts(json_to_string(row).c_str());
}

}  // namespace
}  // namespace ibid

int main(int argc, char** argv) {
  using namespace ibid;
  if (argc == 4 && std::string_view(argv[1]) == "--row") {
    print_row(argv[2], argv[3]);
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  const auto file = take(open_model_file(take(resolve_model(argc > 1 ? argv[1] : "")), {.vocabulary_only = true}));
  const auto tokenizer = take(load_tokenizer(*file));
  const ChatTemplate chat_template = take(load_chat_template(*file));
  const auto add = [](const char* name, auto function) { return benchmark::RegisterBenchmark(name, function); };
  add("encode", [&](auto& state) { encode(state, *tokenizer); })->Arg(1000)->Arg(100000);
  add("append_message", [&](auto& state) { append_message(state, *tokenizer); })->Arg(1000)->Arg(100000);
  add("decode", [&](auto& state) { decode(state, *tokenizer); });
  add("render_next", [&](auto& state) { render_next(state, chat_template); })->Arg(4)->Arg(200);
  add("render_all", [&](auto& state) { render_all(state, chat_template); })->Arg(4)->Arg(200);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

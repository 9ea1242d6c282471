// ibid perplexity: how well a model predicts a text.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "apps/command_line/command.h"
#include "apps/command_line/option_kinds.h"
#include "apps/inspect/feed.h"
#include "apps/inspect/logits_comparison.h"
#include "apps/models/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "model/architectures/architectures.h"
#include "model/load_model.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

namespace {

struct PerplexityArguments {
  ModelArguments model;
  std::string text_path;
  bool json = false;
};

Result<std::string> read_text(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status(ErrorCode::kIo, path + ": cannot be read");
  text << file.rdbuf();
  return text.str();
}

// The text is one window: nothing is prepended, every token but the first is predicted from all before it.
Status run_perplexity(const PerplexityArguments& arguments) {
  TRY_ASSIGN(const std::string text, read_text(arguments.text_path));
  TRY_ASSIGN(const std::string path, resolve_model(arguments.model.model));
  TRY_ASSIGN(const auto file, open_model_file(path));
  TRY(read_config(*file).status());  // first: it says what is no model
  TRY_ASSIGN(const auto tokenizer, load_tokenizer(*file));
  const Tokens tokens = tokenizer->encode(text, TextOrigin::kInput);
  if (tokens.size() < 2) return {ErrorCode::kInvalidArgument, arguments.text_path + ": wanted at least two tokens"};
  TRY_ASSIGN(const auto model, load_language_model(*file, arguments.model.options()));
  if (tokens.size() > model->max_seq_len()) {
    return {ErrorCode::kContextFull, arguments.text_path + " has " + std::to_string(tokens.size()) +
                                         " tokens, the context has " + std::to_string(model->max_seq_len())};
  }
  double sum = 0;
  const auto add = [&](size_t position, std::span<const float> logits) {
    if (position + 1 == tokens.size()) return;
    sum += log_sum_exp(logits) - static_cast<double>(logits[static_cast<size_t>(tokens[position + 1])]);
  };
  TRY(feed(*model, tokens, {}, add));
  const double nll = sum / static_cast<double>(tokens.size() - 1);
  if (arguments.json) {
    const Json result = {{"nll", nll}, {"tokens", tokens.size()}, {"perplexity", std::exp(nll)}};
    std::puts(result.dump().c_str());
  } else {
    std::printf("%.6f nats per token over %zu tokens, perplexity %.3f\n", nll, tokens.size(), std::exp(nll));
  }
  return {};
}

}  // namespace

void add_perplexity(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<PerplexityArguments>();
  CLI::App* command = root.add_subcommand("perplexity", "mean negative log-likelihood of a text");
  arguments->model.add_model(*command, true);
  command->add_option("TEXT", arguments->text_path, "a file, or - for standard input")->type_name("FILE")->required();
  arguments->model.add_running(*command);
  command->add_flag("--json", arguments->json, "print JSON")->group(kCommonGroup);
  command->callback([arguments, &exit_code] {
    if (const Status status = run_perplexity(*arguments); !status.ok()) exit_code = report(status);
  });
}

}  // namespace ibid

// ibid logits: writes the logits of given tokens, or compares them with a reference. ibid perplexity: measures how well
// a model predicts a text.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "apps/chat/load_engine.h"
#include "apps/command_line/command.h"
#include "apps/inspect/logits_comparison.h"
#include "apps/models/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "model/architectures/architectures.h"
#include "model/load_model.h"
#include "model/memory_plan.h"
#include "tokenizer/tokenizer.h"
#include "weights/model_file.h"
#include "weights/safetensors_writer.h"

namespace ibid {

namespace {

struct LogitsArguments {
  ModelArguments model;
  std::string ids_path;
  std::string out_path;
  std::string compare_path;
  std::vector<size_t> chunks;
};

struct Sequence {
  Tokens ids;
  std::vector<int64_t> positions;  // positions as listed in the file; all positions if the file has no list
};

Result<std::vector<Sequence>> read_sequences(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status(ErrorCode::kIo, path + ": cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  TRY_ASSIGN(const Json json, parse_json(text.str(), path));
  const auto wrong = [&] {
    return Status(ErrorCode::kInvalidArgument,
                  path + ": expected {\"sequences\": [{\"ids\": [...], \"positions\": [...]}]}");
  };
  if (!json.is_object() || !json.contains("sequences") || !json["sequences"].is_array()) return wrong();
  std::vector<Sequence> sequences;
  for (const Json& entry : json["sequences"]) {
    if (!entry.is_object() || !entry.contains("ids") || !entry["ids"].is_array()) return wrong();
    Sequence sequence;
    for (const Json& id : entry["ids"]) {
      if (!id.is_number_integer()) return wrong();
      sequence.ids.push_back(static_cast<TokenId>(id.get<int64_t>()));
    }
    const Json positions = entry.value("positions", Json());
    for (size_t i = 0; positions.is_null() && i < sequence.ids.size(); ++i) {
      sequence.positions.push_back(static_cast<int64_t>(i));
    }
    for (const Json& position : positions) {
      if (!position.is_number_integer() || position.get<int64_t>() < 0 ||
          position.get<size_t>() >= sequence.ids.size()) {
        return Status(ErrorCode::kInvalidArgument, path + ": a position outside its sequence");
      }
      sequence.positions.push_back(position.get<int64_t>());
    }
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

TensorView int64_view(const std::vector<int64_t>& values) {
  return {DType::kI64, Shape{{values.size()}, 1}, std::as_bytes(std::span(values))};
}

struct LogitRows {
  std::vector<int64_t> ids;
  std::vector<int64_t> positions;
  std::vector<float> logits;  // [P, V]
};

Status write_rows(const std::string& path, const std::vector<LogitRows>& rows, size_t vocab_size) {
  std::vector<NamedTensor> tensors;
  for (size_t n = 0; n < rows.size(); ++n) {
    const std::string suffix = "." + std::to_string(n);
    const TensorView logits{DType::kF32, Shape{{rows[n].positions.size(), vocab_size}, 2},
                            std::as_bytes(std::span(rows[n].logits))};
    tensors.push_back({"ids" + suffix, int64_view(rows[n].ids)});
    tensors.push_back({"positions" + suffix, int64_view(rows[n].positions)});
    tensors.push_back({"logits" + suffix, logits});
  }
  return write_safetensors(path, tensors);
}

Status run_logits(const LogitsArguments& arguments) {
  TRY_ASSIGN(const std::vector<Sequence> sequences, read_sequences(arguments.ids_path));
  TRY_ASSIGN(const std::string path, resolve_model(arguments.model.model));
  std::unique_ptr<ModelFile> reference;
  if (!arguments.compare_path.empty()) {
    TRY_ASSIGN(reference, open_model_file(arguments.compare_path));
  }
  TRY_ASSIGN(const auto model, load_for_feeding(path, arguments.model.options()));

  LogitsComparison comparison;
  std::vector<LogitRows> output;
  for (size_t n = 0; n < sequences.size(); ++n) {
    const Sequence& sequence = sequences[n];
    LogitRows rows{{sequence.ids.begin(), sequence.ids.end()}, sequence.positions, {}};
    if (!arguments.out_path.empty()) rows.logits.resize(rows.positions.size() * model->vocab_size());
    Status failed;
    const auto take = [&](size_t position, std::span<const float> logits) {
      if (reference && failed.ok()) failed = comparison.add(*reference, n, position, logits);
      for (size_t p = 0; p < rows.positions.size() && !rows.logits.empty(); ++p) {
        if (static_cast<size_t>(rows.positions[p]) != position) continue;
        std::copy(logits.begin(), logits.end(), rows.logits.begin() + static_cast<std::ptrdiff_t>(p * logits.size()));
      }
    };
    TRY(feed(*model, sequence.ids, arguments.chunks, take));
    TRY(failed);
    output.push_back(std::move(rows));
  }
  if (!arguments.out_path.empty()) TRY(write_rows(arguments.out_path, output, model->vocab_size()));
  if (reference) std::puts(comparison.to_json().dump().c_str());
  return {};
}

}  // namespace

void add_logits(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<LogitsArguments>();
  CLI::App* command = root.add_subcommand("logits", "write the logits of given tokens, or compare with a reference");
  arguments->model.add_model(*command, true);
  command->add_option("--ids", arguments->ids_path, "{\"sequences\": [{\"ids\": [...], \"positions\": [...]}]}")
      ->type_name("FILE")
      ->required()
      ->group(kCommonGroup);
  command->add_option("--out", arguments->out_path, "safetensors file to write")
      ->type_name("FILE")
      ->group(kCommonGroup);
  command->add_option("--compare", arguments->compare_path, "safetensors file with reference logits")
      ->type_name("FILE")
      ->group(kCommonGroup);
  command->add_option("--chunks", arguments->chunks, "feed in chunks of these sizes, repeated: 1,7,64")
      ->delimiter(',')
      ->type_name("N,N")
      ->check(whole_number(1, kMaxContext))
      ->group(kCommonGroup);
  arguments->model.add_running(*command);
  command->callback([arguments, &exit_code] {
    if (const Status status = run_logits(*arguments); !status.ok()) exit_code = report(status);
  });
}

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

// Evaluates the text as one window: prepends no token, and predicts each token but the first from all tokens before it.
Status run_perplexity(const PerplexityArguments& arguments) {
  TRY_ASSIGN(const std::string text, read_text(arguments.text_path));
  TRY_ASSIGN(const std::string path, resolve_model(arguments.model.model));
  TRY_ASSIGN(const auto engine, load_engine(path, arguments.model));
  TRY_ASSIGN(const Tokens tokens, engine->encode(text));
  if (tokens.size() < 2) return {ErrorCode::kInvalidArgument, arguments.text_path + ": expected at least two tokens"};
  Result<Scored> scored = engine->score(tokens);
  if (!scored.ok()) return {scored.status().code(), arguments.text_path + ": " + scored.status().message()};
  double sum = 0;
  for (const TokenLogprobs& token : scored->tokens) sum -= token.logprob;
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
  CLI::App* command = root.add_subcommand("perplexity", "mean negative log-likelihood of a text, and its perplexity");
  arguments->model.add_model(*command, true);
  command->add_option("TEXT", arguments->text_path, "a file, or - for standard input")->type_name("FILE")->required();
  arguments->model.add_running(*command);
  command->add_flag("--json", arguments->json, "print JSON")->group(kCommonGroup);
  command->callback([arguments, &exit_code] {
    if (const Status status = run_perplexity(*arguments); !status.ok()) exit_code = report(status);
  });
}

}  // namespace ibid

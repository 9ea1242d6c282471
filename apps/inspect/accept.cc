// `ibid accept`: tests texts against a schema, a grammar or a regular expression.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/chat/turn_arguments.h"
#include "apps/command_line/command.h"
#include "apps/inspect/json_lines.h"
#include "apps/models/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "base/json_limits.h"
#include "base/result.h"
#include "grammar/grammar.h"
#include "model/load_model.h"
#include "runtime/generate/constraint_cache.h"
#include "tokenizer/tokenizer.h"

namespace ibid {
namespace {

struct AcceptArguments {
  ResponseFormatArguments format;
  ModelArguments model;
  bool strict = false;
  bool json_lines = true;
};

using Clock = std::chrono::steady_clock;

int64_t microseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
}

// Returns a vocabulary with one token for each byte value.
std::shared_ptr<const TokenTexts> byte_vocabulary() {
  std::vector<TokenTexts::Token> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({.bytes = std::string(1, static_cast<char>(byte))});
  return std::make_shared<const TokenTexts>(std::move(tokens));
}

// Splits an error "schema: #/properties/a/not: ..." into the place in the schema and the keyword. Errors of grammars
// and regular expressions have no place.
Json explained(const Status& status) {
  const std::string& text = status.message();
  const size_t begin = text.find('#'), end = text.find(": ", begin == text.npos ? 0 : begin);
  if (!text.starts_with("schema: #") || end == text.npos) return {{"keyword", ""}, {"path", ""}, {"message", text}};
  const std::string path = text.substr(begin, end - begin);
  const size_t slash = path.rfind('/');
  std::string keyword = slash == path.npos ? "" : path.substr(slash + 1);
  const std::string parent = slash == path.npos ? "" : path.substr(0, slash);
  const bool is_index = keyword.find_first_not_of("0123456789") == keyword.npos;
  for (const char* names : {"/properties", "/patternProperties", "/$defs", "/definitions", "/dependentSchemas"}) {
    if (is_index || parent.ends_with(names)) keyword.clear();
  }
  return {{"keyword", keyword}, {"path", path}, {"message", text.substr(end + 2)}};
}

// Walks through the masks of the tokens of a text, up to the first token that is not allowed, and measures the time of
// each mask.
Status walk(const TokenConstraint& prototype, const TokenTexts& vocabulary, std::string_view text,
            std::vector<int64_t>& times) {
  const auto constraint = prototype.clone();
  TokenMask mask(vocabulary.size());
  while (!text.empty()) {
    mask.clear();
    const auto start = Clock::now();
    constraint->allowed(mask);
    const TokenId token = vocabulary.longest_prefix(text);
    const bool allowed = token >= 0 && mask.has(token);
    if (allowed) constraint->push(token);
    times.push_back(microseconds_since(start));
    TRY(constraint->status());
    if (!allowed) break;
    text.remove_prefix(vocabulary.bytes(token).size());
  }
  return {};
}

Json percentiles(std::vector<int64_t> times) {
  std::ranges::sort(times);
  const auto at = [&](size_t percent) { return times[std::min(times.size() - 1, times.size() * percent / 100)]; };
  return {{"p50", at(50)}, {"p99", at(99)}, {"max", times.back()}};
}

// Answers JSON lines: tests the texts of each line against its grammar.
class Acceptor {
 public:
  Acceptor(std::shared_ptr<const TokenTexts> vocabulary, std::optional<Grammar> grammar, int64_t compile_us,
           bool strict)
      : vocabulary_(std::move(vocabulary)), grammar_(std::move(grammar)), compile_us_(compile_us), strict_(strict) {}

  Result<Json> answer(const Json& line) const {
    for (const auto& [key, value] : line.items()) {
      if (key == "id" || key == "text" || key == "texts" || (key == "schema" && !grammar_)) continue;
      return Status(ErrorCode::kInvalidArgument,
                    "unknown key \"" + key + "\" (id, text or texts" + (grammar_ ? ")" : ", schema)"));
    }
    TRY_ASSIGN(const std::vector<std::string> texts, texts_of(line));
    Json reply = Json::object();
    if (line.contains("id")) reply["id"] = line.at("id");
    if (grammar_) return examined(*grammar_, compile_us_, texts, std::move(reply));
    if (!line.contains("schema")) {
      return Status(ErrorCode::kInvalidArgument, "expected a \"schema\", because no grammar is given as an option");
    }
    const Json& schema = line.at("schema");
    const auto start = Clock::now();
    const Result<Grammar> grammar = schema.is_string()
                                        ? compile_json_schema(schema.get_ref<const std::string&>(), {.strict = strict_})
                                        : compile_parsed_json_schema(schema, {.strict = strict_});
    const int64_t compile_us = microseconds_since(start);
    if (grammar.ok()) return examined(*grammar, compile_us, texts, std::move(reply));
    reply["error"] = explained(grammar.status());
    return reply;
  }

 private:
  static Result<std::vector<std::string>> texts_of(const Json& line) {
    const bool is_one = line.contains("text");
    const Json given = is_one ? Json::array({line.at("text")}) : line.contains("texts") ? line.at("texts") : Json();
    if (!given.is_array() || (is_one && line.contains("texts"))) {
      return Status(ErrorCode::kInvalidArgument, "expected a string \"text\" or an array of strings \"texts\"");
    }
    std::vector<std::string> texts;
    for (const Json& text : given) {
      if (!text.is_string()) return Status(ErrorCode::kInvalidArgument, "a text is not a string");
      texts.push_back(text.get<std::string>());
    }
    return texts;
  }

  Result<Json> examined(const Grammar& grammar, int64_t compile_us, const std::vector<std::string>& texts,
                        Json reply) const {
    const auto prototype = make_constraint(grammar, vocabulary_);
    std::vector<int64_t> times;
    for (const char* list : {"accepted", "at", "complete"}) reply[list] = Json::array();
    for (const std::string& text : texts) {
      const Result<TextMatch> match = match_text(grammar, text);
      const Status status = match.ok() ? walk(*prototype, *vocabulary_, text, times) : match.status();
      if (!status.ok()) {
        for (const char* list : {"accepted", "at", "complete"}) reply.erase(list);
        reply["error"] = explained(status);
        return reply;
      }
      const bool ends_too_soon = !match->accepted && match->n_matched == text.size();
      reply["accepted"].push_back(match->accepted);
      reply["at"].push_back(match->accepted ? Json() : Json(match->n_matched));
      reply["complete"].push_back(!ends_too_soon);
    }
    reply["compile_us"] = compile_us;
    if (!times.empty()) reply["mask_us"] = percentiles(std::move(times));
    if (!grammar.ignored().empty()) reply["ignored"] = grammar.ignored();
    return reply;
  }

  const std::shared_ptr<const TokenTexts> vocabulary_;
  const std::optional<Grammar> grammar_;  // nullopt: each line has its own schema
  const int64_t compile_us_;
  const bool strict_;
};

// Answers all lines. Returns 1 if an answer was an error.
Result<int> accept(const AcceptArguments& arguments) {
  const auto start = Clock::now();
  TRY_ASSIGN(std::optional<Grammar> grammar, arguments.format.grammar({.strict = arguments.strict}));
  const int64_t compile_us = microseconds_since(start);
  std::shared_ptr<const TokenTexts> vocabulary = byte_vocabulary();
  if (!arguments.model.model.empty()) {
    TRY_ASSIGN(const std::string path, resolve_model(arguments.model.model));
    TRY_ASSIGN(const auto file, open_model_file(path, {.vocabulary_only = true}));
    TRY_ASSIGN(const auto tokenizer, load_tokenizer(*file));
    vocabulary = make_vocabulary(*tokenizer);
  }
  const Acceptor acceptor(std::move(vocabulary), std::move(grammar), compile_us, arguments.strict);
  int exit_code = 0;
  TRY(for_each_json_line([&](const Json& line) {
    Result<Json> reply = acceptor.answer(line);
    if (reply.ok() && reply->contains("error")) exit_code = 1;
    return reply;
  }));
  return exit_code;
}

}  // namespace

void add_accept(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<AcceptArguments>();
  CLI::App* command = root.add_subcommand("accept", "test texts against a schema or grammar, one JSON line each");
  command->footer(
      "a line in, with an option for the grammar:\n"
      "  {\"text\": ...} or {\"id\": ..., \"texts\": [...]}\n"
      "a line in, without one:\n"
      "  {\"id\": ..., \"schema\": ..., \"texts\": [...]}\n"
      "a line out:\n"
      "  {\"id\": ..., \"accepted\": [true, ...], \"at\": [null, ...],\n"
      "   \"complete\": [true, ...], \"compile_us\": ...,\n"
      "   \"mask_us\": {\"p50\", \"p99\", \"max\"}}\n"
      "  or {\"id\": ..., \"error\": {\"keyword\", \"path\", \"message\"}}\n"
      "\"at\" is the byte of a text that the grammar refuses, or the length of a\n"
      "text that only ends too soon; then \"complete\" is false.\n"
      "The exit status is 1 when a line was an error.");
  arguments->format.add(*command);
  command->add_option("-m,--model,MODEL", arguments->model.model, "measure the masks of this model's tokens, not bytes")
      ->type_name("MODEL")
      ->group(kCommonGroup);
  command->add_flag("--strict", arguments->strict, "follow JSON Schema 2020-12 strictly")->group(kCommonGroup);
  command->add_flag("--jsonl", arguments->json_lines, "read and write JSON lines (the only form)")->group(kCommonGroup);
  command->callback([arguments, &exit_code] {
    const Result<int> status = accept(*arguments);
    exit_code = status.ok() ? *status : report(status.status());
  });
}

}  // namespace ibid

#include "apps/chat/turn_json.h"

#include <chrono>
#include <filesystem>
#include <random>

#include "apps/models/model_catalog.h"
#include "base/checked.h"
#include "runtime/generate/logprobs_json.h"
#include "templates/message.h"

namespace ibid {

namespace {

std::string random_id() {
  constexpr const char* kDigits = "0123456789abcdef";
  std::random_device device;
  std::string id = "chatcmpl-";
  for (size_t i = 0; i < 32; ++i) id += kDigits[device() & 15u];
  return id;
}

Json choice_json(size_t index, const Turn& turn, const Tokenizer* tokenizer) {
  Json choice = {{"index", index},
                 {"message", make_message(Role::kAssistant, turn.text)},
                 {"logprobs", turn.logprobs.empty() ? Json() : logprobs_json(turn.logprobs, *tokenizer)},
                 {"finish_reason", finish_reason_json(turn.finish_reason)},
                 {"seed", turn.seed}};
  if (!turn.stop_string.empty()) choice["stop_string"] = turn.stop_string;
  return choice;
}

// The prompt is the first answer's, which read it for all.
Json usage_json(std::span<const Turn> answers) {
  const Usage& first = answers.front().usage;
  Usage all;
  for (const Turn& turn : answers) all += turn.usage;
  return {{"prompt_tokens", first.n_prompt},
          {"completion_tokens", all.n_decoded},
          {"total_tokens", first.n_prompt + all.n_decoded},
          {"prompt_tokens_details", {{"cached_tokens", first.n_cached}, {"prefilled_tokens", first.n_prefilled}}},
          {"completion_tokens_details",
           {{"accepted_prediction_tokens", all.n_accepted},
            {"rejected_prediction_tokens", saturating_sub(all.n_drafted, all.n_accepted)}}}};
}

Json timings_json(const Timings& t) {
  Json json = Json::object();
  for (const auto& [name, field] : kStageTimings) json[name] = t.*field;
  for (const auto& [name, field] : kTurnTimings) json[name] = t.*field;
  return json;
}

struct ErrorName {
  const char* type;
  const char* code;
};

ErrorName error_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return {"invalid_request_error", "invalid_argument"};
    case ErrorCode::kContextFull: return {"invalid_request_error", "context_length_exceeded"};
    case ErrorCode::kNotFound: return {"invalid_request_error", "model_not_found"};
    case ErrorCode::kUnsupported: return {"invalid_request_error", "unsupported"};
    case ErrorCode::kBusy: return {"invalid_request_error", "busy"};
    case ErrorCode::kCancelled: return {"invalid_request_error", "cancelled"};
    case ErrorCode::kOutOfMemory: return {"server_error", "out_of_memory"};
    case ErrorCode::kIo: return {"server_error", "io"};
    default: return {"server_error", nullptr};
  }
}

// "BadHeader" as "bad_header".
std::string snake_case(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper && !text.empty()) text += '_';
    text += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

}  // namespace

std::string model_name(const Engine& engine) {
  const KnownModel* known = known_model_of_file(engine.name());
  std::filesystem::path path(engine.name());
  if (!path.has_filename()) path = path.parent_path();  // "directory/"
  return known != nullptr ? known->name : path.filename().string();
}

CompletionIdentity new_completion(const std::string& model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {random_id(), std::chrono::duration_cast<std::chrono::seconds>(now).count(), model};
}

std::string finish_reason_json(FinishReason reason) {
  return reason == FinishReason::kStopString ? "stop" : std::string(finish_reason_name(reason));
}

Json completion_json(const CompletionIdentity& identity, std::span<const Turn> answers, const Json& messages,
                     const Tokenizer* tokenizer) {
  const Turn& first = answers.front();
  Json choices = Json::array();
  for (size_t i = 0; i < answers.size(); ++i) choices.push_back(choice_json(i, answers[i], tokenizer));
  Json json = {{"id", identity.id},
               {"object", "chat.completion"},
               {"created", identity.created},
               {"model", identity.model},
               {"choices", std::move(choices)},
               {"finish_reason", finish_reason_json(first.finish_reason)},
               {"messages", messages},
               {"usage", usage_json(answers)},
               {"timings", timings_json(first.timings)}};
  if (first.left_out.any()) {
    json["left_out"] = {{"n_messages", first.left_out.n_messages}, {"n_bytes", first.left_out.n_bytes}};
  }
  if (first.lost_prefix) json["lost_prefix"] = first.lost_prefix->to_string();
  return json;
}

Json error_json(const Status& status) {
  const ErrorName name = error_name(status.code());
  const std::string code = name.code != nullptr ? name.code : snake_case(error_code_name(status.code()));
  return {{"error", {{"message", status.message()}, {"type", name.type}, {"code", code}}}};
}

}  // namespace ibid

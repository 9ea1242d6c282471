#include "apps/chat/turn_report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <vector>

#include "apps/chat/sampling_options.h"
#include "apps/models/model_catalog.h"
#include "apps/terminal/graphemes.h"
#include "base/checked.h"
#include "base/text.h"
#include "runtime/generate/logprobs_json.h"
#include "templates/message.h"

namespace ibid {

namespace {

std::string rounded(double value) { return std::to_string(std::lround(value)); }

std::string_view reason(FinishReason finish_reason) {
  switch (finish_reason) {
    case FinishReason::kCancelled: return "stopped";
    case FinishReason::kLength: return "length limit";
    case FinishReason::kRepetition: return "stopped: it repeats itself";
    case FinishReason::kStop:
    case FinishReason::kStopString: break;
  }
  return {};
}

struct Part {
  std::string text;
  int importance;  // the least important parts are omitted first
};

std::string line_of(const std::vector<Part>& parts) {
  std::string line;
  for (const Part& part : parts) line += (line.empty() ? "" : " · ") + part.text;
  return line;
}

}  // namespace

std::string status_line(const Turn& turn, size_t turn_number, size_t width) {
  constexpr int kAlways = 100;
  std::vector<Part> parts;
  const std::string why(reason(turn.finish_reason));
  if (!why.empty()) parts.push_back({why, kAlways});
  parts.push_back({"turn " + std::to_string(turn_number), 2});
  // Show token counts only if they are known: servers may not report usage, and an interrupted answer has none.
  if (turn.usage.n_prompt > 0) {
    parts.push_back({std::to_string(turn.usage.n_prompt + turn.usage.n_decoded) + " tokens", 5});
    parts.push_back({std::to_string(turn.usage.n_cached) + " cached", 4});
  }
  if (turn.timings.ttft_ms > 0) parts.push_back({"first token " + rounded(turn.timings.ttft_ms) + " ms", 1});
  if (turn.timings.decode_tps > 0) parts.push_back({rounded(turn.timings.decode_tps) + " tok/s", 3});
  while (!parts.empty() && text_columns(line_of(parts)) > width) {
    const auto less = [](const Part& a, const Part& b) { return a.importance < b.importance; };
    const auto least = std::min_element(parts.begin(), parts.end(), less);
    if (least->importance == kAlways) break;
    parts.erase(least);
  }
  return line_of(parts);
}

std::string ending_line(const Turn& turn, size_t max_tokens, AnswerPlace place) {
  const bool in_chat = place == AnswerPlace::kChat;
  if (turn.finish_reason == FinishReason::kRepetition) {
    return std::string("the answer was stopped because it repeats itself; ") +
           (in_chat ? "/continue goes on, /regen generates another one, /set stop-repetition off disables this"
                    : "--stop-repetition off disables this");
  }
  if (turn.finish_reason != FinishReason::kLength) return {};
  const std::string cut = "the answer was cut after " + std::to_string(turn.usage.n_decoded) + " tokens";
  if (max_tokens == 0 || turn.usage.n_decoded < max_tokens) {
    return cut + ": the context is full; " +
           (in_chat ? "a chat with a larger --context has more room" : "--context N makes room for more");
  }
  return cut + "; " +
         (in_chat ? "/continue goes on, /set max-tokens N sets another limit (unlimited: none)"
                  : "--max-tokens N sets another limit (unlimited: none)");
}

std::string failure_text(const Status& status, AnswerPlace place) {
  if (status.code() != ErrorCode::kContextFull) return status.message();
  // Cut off the text after the numbers, because it names library functions.
  const std::string numbers = status.message().substr(0, status.message().find(';'));
  // Old turns were already dropped where the policy allows (runtime/session/context_policy.cc), so the new message
  // alone is too long.
  if (numbers.starts_with("even without all removable turns") && place != AnswerPlace::kAsk) {
    const std::string command = place == AnswerPlace::kChat ? "/when-full" : "--when-full";
    return numbers + "\nto fix this: a shorter message, " + command + " cut leaves its middle out, a larger --context";
  }
  if (numbers.starts_with("even with an empty newest message")) {
    return numbers + "\nto fix this: a shorter system message, fewer pins, a larger --context";
  }
  switch (place) {
    case AnswerPlace::kChat:
      return numbers +
             "\nto fix this: /when-full drop drops old turns, /undo removes the last turn,\n"
             "/edit shortens a message, /clear begins anew";
    case AnswerPlace::kPipe: return numbers + "\nto fix this: --when-full drop drops old turns, a larger --context";
    case AnswerPlace::kAsk: break;
  }
  return numbers + "\nto fix this: a shorter text, a larger --context";
}

std::string settings_text(const std::string& model, size_t context, const TurnOptions& options) {
  const std::string sampling = describe_sampling(options);
  return model + (context > 0 ? ", context " + std::to_string(context) : "") +
         "\nsampling: " + (sampling.empty() ? "the defaults" : sampling);
}

std::string rates_line(const Turn& turn) {
  char line[160];
  std::snprintf(line, sizeof line,
                "%zu tokens prefilled, %zu generated, first after %.0f ms, %.0f tok/s; finish: %s; seed %llu",
                turn.usage.n_prefilled, turn.usage.n_decoded, turn.timings.ttft_ms, turn.timings.decode_tps,
                finish_reason_json(turn.finish_reason).c_str(), static_cast<unsigned long long>(turn.seed));
  return line;
}

std::string reading_line(const TurnEvent& event) {
  return "reading " + std::to_string(event.n_done) + " of " + std::to_string(event.n_total) + " tokens";
}

std::string left_out_line(const LeftOut& left_out) {
  std::string parts;
  if (left_out.n_messages > 0) parts = std::to_string(left_out.n_messages) + " old messages";
  if (left_out.n_bytes > 0) {
    if (!parts.empty()) parts += " and ";
    parts += std::to_string(left_out.n_bytes) + " bytes in the middle of long messages";
  }
  return "the context is full: " + parts + " are left out from here on";
}

namespace {

Json choice_json(size_t index, const Turn& turn, const Tokenizer* tokenizer) {
  Json choice = {{"index", index},
                 {"message", make_message(Role::kAssistant, turn.text)},
                 {"logprobs", turn.logprobs.empty() ? Json() : logprobs_json(turn.logprobs, *tokenizer)},
                 {"finish_reason", finish_reason_json(turn.finish_reason)},
                 {"seed", turn.seed}};
  if (!turn.stop_string.empty()) choice["stop_string"] = turn.stop_string;
  return choice;
}

// Returns the usage of all answers. The prompt was prefilled once, by the first answer.
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

// Converts "BadHeader" to "bad_header".
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
  if (!path.has_filename()) path = path.parent_path();  // the path ends in "/"
  return known != nullptr ? known->name : path.filename().string();
}

CompletionIdentity new_completion(const std::string& model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {"chatcmpl-" + random_digits(), std::chrono::duration_cast<std::chrono::seconds>(now).count(), model};
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

#include "server/service/system_messages.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "server/service/request_prompt.h"
#include "server/service/response_format.h"
#include "templates/message.h"

namespace ibid::serve {
namespace {

constexpr std::string_view kBetween = "\n\n";

std::string text_of(const Json& message) {
  const std::string* text = content_of(message);
  return text == nullptr ? std::string() : *text;
}

void append_text(Json& message, const std::string& text) {
  const std::string before = text_of(message);
  set_content(message, before.empty() ? text : before + std::string(kBetween) + text);
}

void prepend_text(Json& message, const std::string& text) {
  const std::string after = text_of(message);
  set_content(message, after.empty() ? text : text + std::string(kBetween) + after);
}

// Returns the number of system messages at the beginning that may stay there.
size_t n_leading(const Json& messages) { return !messages.empty() && is_from(messages[0], Role::kSystem) ? 1 : 0; }

bool has_later_system(const Json& messages) {
  const auto first = messages.begin() + static_cast<std::ptrdiff_t>(n_leading(messages));
  return std::any_of(first, messages.end(), [](const Json& message) { return is_from(message, Role::kSystem); });
}

// Joins each later system message to a neighbour: to the previous message if that is a user or system message,
// otherwise to the next message if that is a user message. Without such a neighbour, makes it a user message.
Json joined_beside(const Json& messages) {
  Json out = Json::array();
  std::string waiting;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (is_from(message, Role::kSystem) && i >= n_leading(messages)) {
      if (!waiting.empty()) waiting += kBetween;
      waiting += text_of(message);
      const bool has_next = i + 1 < messages.size();
      if (has_next && is_from(messages[i + 1], Role::kSystem)) continue;
      const bool joins_before =
          !out.empty() && (is_from(out.back(), Role::kUser) || is_from(out.back(), Role::kSystem));
      if (joins_before) {
        append_text(out.back(), std::exchange(waiting, {}));
      } else if (!has_next || !is_from(messages[i + 1], Role::kUser)) {
        out.push_back(make_message(Role::kUser, std::exchange(waiting, {})));
      }
      continue;
    }
    out.push_back(message);
    if (!waiting.empty()) prepend_text(out.back(), std::exchange(waiting, {}));
  }
  return out;
}

// Joins all later system messages to the first one. If the first message has another role, adds a system message before
// it.
Json joined_to_first(const Json& messages) {
  Json first = make_message(Role::kSystem, "");
  Json out = Json::array();
  out.push_back(nullptr);
  for (const Json& message : messages) {
    if (!is_from(message, Role::kSystem)) {
      out.push_back(message);
    } else if (&message == &messages[0]) {
      first = message;
    } else {
      append_text(first, text_of(message));
    }
  }
  out[0] = std::move(first);
  return out;
}

Json joined_to_user(const Json& messages) {
  std::string system;
  Json out = Json::array();
  for (const Json& message : messages) {
    if (!is_from(message, Role::kSystem)) {
      out.push_back(message);
      continue;
    }
    if (!system.empty()) system += kBetween;
    system += text_of(message);
  }
  const auto user = std::ranges::find_if(out, [](const Json& message) { return is_from(message, Role::kUser); });
  if (user == out.end()) {
    out.insert(out.begin(), make_message(Role::kUser, std::move(system)));
  } else {
    prepend_text(*user, system);
  }
  return out;
}

// Returns the messages with a different mark as the text of each system message. Other texts are replaced by a short
// one, so that rendering does not take as long as for the whole conversation.
Json with_marked_system(const Json& messages, std::vector<std::string>& marks) {
  Json marked = messages;
  for (Json& message : marked) {
    if (!is_from(message, Role::kSystem)) {
      if (content_of(message) != nullptr && !text_of(message).empty()) set_content(message, "x");
      continue;
    }
    marks.push_back("Kestrelsystem" + std::to_string(marks.size()) + ".");
    set_content(message, marks.back());
  }
  return marked;
}

// True if the template renders the messages, and the result contains all of `texts`.
Result<bool> shows(const Engine& engine, const AnswerRequest& request, const Json& messages,
                   const std::vector<std::string>& texts) {
  const Result<MarkedText> prompt = rendered(engine, request, messages);
  if (!prompt.ok()) return is_refusal(prompt.status().code()) ? Result<bool>(false) : prompt.status();
  return std::ranges::all_of(
      texts, [&](const std::string& text) { return prompt->bytes().find(text) != std::string_view::npos; });
}

std::string description_of(const AnswerRequest& request) {
  std::string text = "Call one of these tools. Answer with the call only: the tool's name, and its arguments as JSON.";
  for (const CallableTool& tool : callable_tools(request.tools, request.tool_choice.name)) {
    text += "\n\nTool: " + tool.name;
    if (!tool.description.empty()) text += "\nDescription: " + tool.description;
    text += "\nArguments: " + json_to_string(tool.schema);
  }
  return text;
}

// If the request demands a call and the model's template does not show the tools, adds a description of the tools to
// the first system message, or in a new one. Changes nothing if the messages already have the description.
void describe_tools(const Engine& engine, AnswerRequest& request) {
  if (request.prompt || !request.tool_choice.demands_call() || engine.state().reply_format().shows_tools) return;
  if (!request.messages.is_array()) return;
  const std::string text = description_of(request);
  const bool has_system = !request.messages.empty() && is_from(request.messages.front(), Role::kSystem);
  if (!has_system) {
    request.messages.insert(request.messages.begin(), make_message(Role::kSystem, text));
    return;
  }
  const std::string* content = content_of(request.messages.front());
  if (content != nullptr && std::string_view(*content).ends_with(text)) return;
  set_content(request.messages.front(), content == nullptr || content->empty() ? text : *content + "\n\n" + text);
}

}  // namespace

bool is_refusal(ErrorCode code) { return code == ErrorCode::kTemplateRaise || code == ErrorCode::kTemplateError; }

Status prepare_messages(const Engine& engine, AnswerRequest& request) {
  describe_tools(engine, request);
  if (request.prompt || !has_later_system(request.messages) || engine.state().chat_template() == nullptr) return {};
  std::vector<std::string> marks;
  const Json marked = with_marked_system(request.messages, marks);
  TRY_ASSIGN(const bool are_shown, shows(engine, request, marked, marks));
  if (are_shown) return {};
  for (const auto& join : {joined_beside, joined_to_first, joined_to_user}) {
    TRY_ASSIGN(const bool is_good, shows(engine, request, join(marked), marks));
    if (!is_good) continue;
    request.messages = join(request.messages);
    ignore(request.ignored, {.field = "messages",
                             .reason = "a system message was joined to another message: the model's template takes "
                                       "none at its place"});
    return {};
  }
  return {};
}

bool join_system_to_user(AnswerRequest& request) {
  const auto is_system = [](const Json& message) { return is_from(message, Role::kSystem); };
  if (request.prompt || std::ranges::none_of(request.messages, is_system)) return false;
  request.messages = joined_to_user(request.messages);
  ignore(request.ignored,
         {.field = "messages",
          .reason = "the system message was joined to the user's text: the model's template takes none"});
  return true;
}

}  // namespace ibid::serve

#include "tests/templates/reply_support.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "templates/chat_template.h"
#include "templates/message.h"
#include "templates/reply/reply_format.h"

namespace ibid {
namespace {

// The end-of-turn tokens of the templates. A model samples them as single tokens that are not part of the answer.
constexpr const char* kEndsOfTurn[] = {"<|im_end|>", "<|eot_id|>",        "<|eom_id|>",
                                       "</s>",       "<|end_of_text|>",   "<seed:eos>",
                                       "<turn|>",    "<|tool_response>",  "<｜end▁of▁sentence｜>",
                                       "<|user|>",   "<|observation|>",   "<|call|>",
                                       "<|return|>", "<|assistant_end|>", "<|END_OF_TURN_TOKEN|>"};

}  // namespace

Json tool(const std::string& name, Json properties) {
  return {{"type", "function"},
          {"function",
           {{"name", name},
            {"description", "A tool."},
            {"parameters", {{"type", "object"}, {"properties", std::move(properties)}, {"required", Json::array()}}}}}};
}

const Json& weather_tools() {
  static const Json& tools = *new Json([] {
    const auto type = [](const char* name) { return Json{{"type", name}, {"description", "what"}}; };
    Json weather = {{"city", type("string")},
                    {"days", type("integer")},
                    {"exact", type("boolean")},
                    {"note", type("string")},
                    {"where", type("object")}};
    weather["tags"] = {{"type", "array"}, {"description", "what"}, {"items", {{"type", "string"}}}};
    Json all = Json::array({tool("get_weather", weather), tool("now", Json::object())});
    all.push_back(tool("add", {{"a", type("number")}, {"b", type("number")}}));
    return all;
  }());
  return tools;
}

Json tool_call(const std::string& name, Json arguments, const std::string& id) {
  Json call = Json::object();
  call["id"] = id;
  call["type"] = "function";
  call["function"]["name"] = name;
  call["function"]["arguments"] = std::move(arguments);
  return call;
}

Json assistant(const std::string& content, Json calls, const std::string& reasoning) {
  Json message = make_message(Role::kAssistant, content);
  if (!reasoning.empty()) {
    for (const char* key : {"reasoning_content", "thinking", "reasoning"}) message[key] = reasoning;
  }
  if (!calls.is_null()) message["tool_calls"] = std::move(calls);
  return message;
}

std::optional<WrittenAnswer> write_answer(const ChatTemplate& chat_template, const Json& message, const Json& tools,
                                          Json values) {
  if (!values.contains("bos_token")) values["bos_token"] = "<s>";
  if (!values.contains("eos_token")) values["eos_token"] = "</s>";
  if (!tools.is_null()) values["tools"] = tools;
  const auto render = [&](const Json& messages, bool asks) -> std::optional<std::string> {
    values["add_generation_prompt"] = asks;
    const auto text = chat_template.render(messages, {values});
    return text.ok() ? std::optional(text->bytes()) : std::nullopt;
  };
  const Json question = make_message(Role::kUser, "Which weather?");
  const auto prompt = render(Json::array({question}), true);
  const auto whole = render(Json::array({question, message}), false);
  if (!prompt || !whole) return std::nullopt;
  const auto plain = render(Json::array({question, assistant("Plainreply")}), false);
  if (!plain) return std::nullopt;
  WrittenAnswer out{*prompt, {}};
  if (!whole->starts_with(*prompt)) {
    const size_t n = static_cast<size_t>(
        std::mismatch(whole->begin(), whole->end(), plain->begin(), plain->end()).first - whole->begin());
    out.prompt = whole->substr(0, std::min(n, plain->find("Plainreply")));
    while (out.prompt.ends_with('<') || out.prompt.ends_with('|')) out.prompt.pop_back();
  }
  out.text = whole->substr(out.prompt.size());
  // The first end of a turn that is not part of the message.
  const std::string said = message.dump();
  size_t end = out.text.size();
  std::vector<std::string> markers = solid_marker_words(plain->substr(plain->find("Plainreply") + 10));
  markers.resize(std::min<size_t>(markers.size(), 1));
  markers.insert(markers.end(), std::begin(kEndsOfTurn), std::end(kEndsOfTurn));
  for (const std::string& marker : markers) {
    if (said.find(marker) == said.npos) end = std::min(end, out.text.find(marker));
  }
  out.text.resize(std::min(end, out.text.size()));
  return out;
}

SplitReply split(const ReplyFormat& format, const ReplyContext& context, const std::vector<std::string>& pieces) {
  SplitReply out;
  const auto listen = [&out](const TurnEvent& event) {
    const bool is_delta = event.kind == TurnEvent::Kind::kReasoning || event.kind == TurnEvent::Kind::kContent ||
                          event.kind == TurnEvent::Kind::kArguments;
    if (is_delta && !out.events.empty() && out.events.back().kind == event.kind) {
      out.events.back().text += event.text;
    } else {
      out.events.push_back(event);
    }
  };
  ReplyParser parser(format, context);
  for (const std::string& piece : pieces) parser.feed(piece, listen);
  parser.finish(listen);
  out.reply = parser.reply();
  return out;
}

ParsedReply parse_reply(const ReplyFormat& format, const ReplyContext& context, std::string_view text) {
  return split(format, context, {std::string(text)}).reply;
}

std::vector<std::string> cut_everywhere(const std::string& text) {
  std::vector<std::string> pieces;
  for (const char c : text) pieces.emplace_back(1, c);
  return pieces;
}

std::vector<std::string> cut_at_random(const std::string& text, Random& random) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t n = std::min(text.size() - at, random.below(12));
    pieces.push_back(text.substr(at, n));
    at += n;
  }
  return pieces;
}

bool same_value(const std::string& a, const Json& b) {
  const auto one = nlohmann::json::parse(a, nullptr, false);
  return !one.is_discarded() && one == nlohmann::json::parse(b.dump());
}

}  // namespace ibid

#include "apps/inspect/facts.h"

#include <string_view>

#include "templates/chat_template.h"
#include "templates/message.h"
#include "templates/reply/find_reply_format.h"

namespace ibid {

namespace {

// Words that do not occur in any template.
constexpr const char* kQuestion = "Kestrelquestion";
constexpr const char* kReply = "Kestrelreply";
constexpr const char* kSystem = "Kestrelsystem";
constexpr const char* kReasoning = "Kestrelreasoning";
constexpr const char* kTool = "kestrel_tool";
constexpr const char* kOtherTool = "kestrel_other_tool";
constexpr const char* kArgument = "Kestrelargument";
constexpr const char* kToolResult = "Kestrelresult";

constexpr size_t kShownBytes = 300;

Json question() { return make_message(Role::kUser, kQuestion); }

Json call(const char* tool) {
  return {
      {"id", "call00001"}, {"type", "function"}, {"function", {{"name", tool}, {"arguments", {{"place", kArgument}}}}}};
}

Json tools() {
  const Json place = {{"type", "string"}, {"description", "where"}};
  const Json parameters = {
      {"type", "object"}, {"properties", {{"place", place}}}, {"required", Json::array({"place"})}};
  const Json function = {{"name", kTool}, {"description", "weather"}, {"parameters", parameters}};
  return Json::array({{{"type", "function"}, {"function", function}}});
}

class Probe {
 public:
  explicit Probe(const ChatTemplate& chat_template) : template_(chat_template) {}

  Result<std::string> render(const Json& messages, Json values = Json::object(),
                             const char* now = "2026-01-31T12:00:00") const {
    if (!values.contains("add_generation_prompt")) values["add_generation_prompt"] = false;
    const Result<MarkedText> text = template_.render(messages, {std::move(values), now});
    if (!text.ok()) return text.status();
    return text->bytes();
  }
  // Returns the rendered text; empty if the template raises an error.
  std::string text(const Json& messages, Json values = Json::object()) const {
    Result<std::string> rendered = render(messages, std::move(values));
    return rendered.ok() ? *std::move(rendered) : std::string();
  }
  bool shows(const Json& messages, const std::string& what, Json values = Json::object()) const {
    return text(messages, std::move(values)).find(what) != std::string::npos;
  }

 private:
  const ChatTemplate& template_;
};

std::string cut(const std::string& text) {
  return text.size() <= kShownBytes ? text : text.substr(0, kShownBytes) + " ...";
}

Fact prompt_fact(const Probe& probe) {
  const Json hello = Json::array({make_message(Role::kUser, "Hello")});
  const std::string text = probe.text(hello, {{"add_generation_prompt", true}});
  return {"a question", cut(text), text};
}

Fact generation_fact(const Probe& probe) {
  const Json messages = Json::array({question()});
  const std::string without = probe.text(messages);
  const std::string with = probe.text(messages, {{"add_generation_prompt", true}});
  if (!with.starts_with(without)) return {"generation prompt", "changes the whole prompt", nullptr};
  const std::string prompt = with.substr(without.size());
  return {"generation prompt", prompt.empty() ? "none" : cut(prompt), prompt};
}

Fact system_fact(const Probe& probe) {
  const Result<std::string> text = probe.render(Json::array({make_message(Role::kSystem, kSystem), question()}));
  if (!text.ok()) return {"system role", "refused: " + text.status().message(), "refused"};
  const bool shown = text->find(kSystem) != std::string::npos;
  return {"system role", shown ? "yes" : "left out", shown ? "yes" : "left out"};
}

Fact tools_fact(const Probe& probe) {
  const char* variable = nullptr;  // template variable that receives the tools; its name differs between templates
  for (const char* name : {"tools", "xml_tools", "python_tools"}) {
    const Json values = {{name, tools()}};
    if (variable == nullptr && probe.shows(Json::array({question()}), kTool, values)) variable = name;
  }
  const bool offered = variable != nullptr, usual = offered && std::string_view(variable) == "tools";
  const auto with_calls = [](const Json& calls) {
    Json assistant = make_message(Role::kAssistant, "");
    assistant["tool_calls"] = calls;
    return Json::array({question(), assistant});
  };
  const Json with_tools = {{"tools", tools()}};
  Json one = with_calls(Json::array({call(kTool)}));
  const bool called = probe.shows(one, kArgument, with_tools);
  const Json two = with_calls(Json::array({call(kTool), call(kOtherTool)}));
  const bool several = called && probe.shows(two, kOtherTool, with_tools);
  Json result = make_message(Role::kTool, kToolResult);
  result["name"] = kTool;
  result["tool_call_id"] = "call00001";
  one.push_back(result);
  // A template that prints messages of any role also prints a tool's result, but it does not support tools.
  const bool answered = (offered || called) && probe.shows(one, kToolResult, with_tools);
  std::string text;
  const auto add = [&](bool is_so, const char* what) {
    if (is_so) text += (text.empty() ? "" : ", ") + std::string(what);
  };
  add(offered, usual ? "offered" : "offered by the variable ");
  if (offered && !usual) text += variable;
  add(called, several ? "several calls at once" : "one call at a time");
  add(answered, "results shown");
  return {"tools",
          text.empty() ? "no" : text,
          {{"offered", usual},
           {"variable", offered ? Json(variable) : Json()},
           {"called", called},
           {"several", several},
           {"results", answered}}};
}

// A template variable that switches thinking or sets its effort.
struct Switch {
  const char* variable;
  Json on, off;
  const char* on_name;
  const char* off_name;
};

void add_switches(const Probe& probe, std::string& text, Json& json) {
  const Switch switches[] = {{"enable_thinking", true, false, "on", "off"},
                             {"thinking", true, false, "on", "off"},
                             {"reasoning_effort", "high", "low", "high", "low"}};
  const Json messages = Json::array({question()});
  for (const Switch& known : switches) {
    const auto with = [&](const Json& value) {
      return probe.text(messages, {{"add_generation_prompt", true}, {known.variable, value}});
    };
    const std::string on = with(known.on), off = with(known.off);
    if (on == off) continue;
    const std::string usual = probe.text(messages, {{"add_generation_prompt", true}});
    const char* otherwise = usual == on ? known.on_name : usual == off ? known.off_name : "neither";
    text += (text.empty() ? "" : ", ") + std::string(known.variable) + " (default: " + otherwise + ")";
    json["switches"].push_back({{"variable", known.variable}, {"default", otherwise}});
  }
  // "/no_think" in the system text is a switch if more of the prompt changes than the word itself. For comparison a
  // word of the same length that no template knows is rendered.
  constexpr std::string_view kWord = "/no_think", kOther = "/no_thinq";
  const auto with_system = [&](std::string_view word) {
    const Json conversation = Json::array({make_message(Role::kSystem, std::string(word)), question()});
    return probe.text(conversation, {{"add_generation_prompt", true}});
  };
  std::string other = with_system(kOther);
  for (size_t i = other.find(kOther); i != std::string::npos; i = other.find(kOther, i + 1)) {
    other.replace(i, kOther.size(), kWord);
  }
  if (with_system(kWord) == other) return;
  text += (text.empty() ? "" : ", ") + std::string("/no_think in the system text");
  json["switches"].push_back({{"variable", "/no_think"}, {"default", "on"}});
}

Fact thinking_fact(const Probe& probe) {
  std::string text;
  Json json = {{"switches", Json::array()}};
  add_switches(probe, text, json);
  Json reply = make_message(Role::kAssistant, kReply);
  reply["reasoning_content"] = kReasoning;
  reply["thinking"] = kReasoning;
  const bool shown = probe.shows(Json::array({question(), reply}), kReasoning);
  const bool kept = probe.shows(Json::array({question(), reply, question()}), kReasoning);
  const std::string inline_text = std::string("<think>\n") + kReasoning + "\n</think>\n\n" + kReply;
  const Json with_thoughts = Json::array({question(), make_message(Role::kAssistant, inline_text), question()});
  const bool cuts = !probe.shows(with_thoughts, kReasoning) && probe.shows(with_thoughts, kReply);
  json["reasoning_shown"] = shown;
  json["reasoning_kept"] = kept;
  json["reasoning_cut_from_text"] = cuts;
  const auto add = [&](const char* what) { text += (text.empty() ? "" : "; ") + std::string(what); };
  if (kept) add("reasoning of old turns is kept");
  if (shown && !kept) add("reasoning is shown, and left out of old turns");
  if (cuts) add("<think> is cut out of old turns");
  return {"thinking", text.empty() ? "no" : text, std::move(json)};
}

// Returns the format of tool calls and reasoning in answers, as the reply parser detects it.
Fact replies_fact(const ChatTemplate& chat_template) {
  const ReplyFormat format = find_reply_format(chat_template);
  const std::string calls = describe_calls(format), reasoning = describe_reasoning(format);
  std::string text = "calls " + calls + " (" + format.origin + ")";
  if (!reasoning.empty()) text += ", reasoning " + reasoning;
  return {"answers",
          text,
          {{"calls", calls},
           {"origin", format.origin},
           {"reasoning", reasoning.empty() ? Json() : Json(reasoning)},
           {"triggers", format.calls->triggers},
           {"several", format.calls->several}}};
}

Fact roles_fact(const Probe& probe) {
  const bool free = probe.render(Json::array({question(), question()})).ok();
  return {"roles", free ? "in any order" : "must alternate", free ? "any" : "take turns"};
}

Fact content_fact(const Probe& probe) {
  const Json parts = Json::array({{{"type", "text"}, {"text", kQuestion}}});
  const Json messages = Json::array({make_message_of_parts(Role::kUser, parts)});
  // A template that prints the list of parts as a list ("[{'type': ...") does not support content in parts.
  const bool understood =
      probe.shows(messages, kQuestion) && !probe.shows(messages, "'type'") && !probe.shows(messages, "\"type\"");
  return {"content", understood ? "a text, or parts" : "a text", {{"parts", understood}}};
}

Fact date_fact(const Probe& probe) {
  const Json messages = Json::array({question()});
  const Result<std::string> one = probe.render(messages);
  const Result<std::string> other = probe.render(messages, Json::object(), "2019-06-07T12:00:00");
  const bool printed = one.ok() && other.ok() && *one != *other;
  return {"date", printed ? "printed" : "no", printed};
}

// Tests whether incremental rendering of the third turn renders only the messages of that turn.
Fact growth_fact(const ChatTemplate& chat_template) {
  ConversationRenderer renderer(chat_template, {});
  Json messages = Json::array();
  bool only_new = false;
  for (size_t turn = 0; turn < 3; ++turn) {
    const size_t n_before = messages.size();
    if (turn > 0) messages.push_back(make_message(Role::kAssistant, kReply));
    messages.push_back(question());
    const auto delta = renderer.render(messages, n_before, true);
    if (!delta.ok()) return {"a new turn", "refused: " + delta.status().message(), "refused"};
    only_new = delta->messages_rendered < messages.size();
  }
  return {"a new turn", only_new ? "renders its own messages" : "renders the whole conversation",
          only_new ? "its own" : "whole"};
}

}  // namespace

Facts template_facts(const ChatTemplate& chat_template) {
  const Probe probe(chat_template);
  if (const Result<std::string> text = probe.render(Json::array({question()})); !text.ok()) {
    return {{"a question", "refused: " + text.status().message(), nullptr}};
  }
  return {prompt_fact(probe),   generation_fact(probe),      system_fact(probe), tools_fact(probe),
          thinking_fact(probe), replies_fact(chat_template), roles_fact(probe),  content_fact(probe),
          date_fact(probe),     growth_fact(chat_template)};
}

}  // namespace ibid

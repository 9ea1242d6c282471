#include "templates/reply/template_probe.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "templates/message.h"
#include "templates/reply/find_reply_format.h"

namespace ibid {

Json probe_call(std::string_view tool, std::string_view id, bool as_text) {
  Json call = Json::object(), function = Json::object();
  function["name"] = tool;
  function["arguments"] = as_text ? Json(probe::kArguments) : *parse_json(probe::kArguments, "probe");
  call["id"] = id;
  call["type"] = "function";
  call["function"] = std::move(function);
  return call;
}

namespace {

constexpr std::string_view kProbeKeys[] = {"kcount", "kflag", "klist", "kplace", "kzone"};

Json in_parts(const std::string& text) { return Json::array({Json{{"type", "text"}, {"text", text}}}); }

Json probe_tools() {
  const auto schema = [](const char* type) { return Json{{"type", type}, {"description", "what"}}; };
  Json properties = Json::object();
  properties["kcount"] = schema("integer");
  properties["kflag"] = schema("boolean");
  properties["klist"] = {{"type", "array"}, {"description", "what"}, {"items", {{"type", "string"}}}};
  properties["kplace"] = schema("string");
  properties["kzone"] = schema("string");
  Json tools = Json::array();
  for (const std::string_view name : {probe::kTool, probe::kOtherTool}) {
    const Json parameters = {{"type", "object"}, {"properties", properties}, {"required", Json::array({"kplace"})}};
    tools.push_back({{"type", "function"},
                     {"function", {{"name", name}, {"description", "What it does."}, {"parameters", parameters}}}});
  }
  return tools;
}

}  // namespace

std::string TemplateProbe::render(const Json& answer, bool with_tools, Json values) const {
  Json messages = Json::array({make_message(Role::kUser, kQuestion)});
  if (in_parts_) messages.front()["content"] = in_parts(kQuestion);
  const bool expects_answer = answer.is_null();
  if (!expects_answer) messages.push_back(answer);
  if (!expects_answer && in_parts_ && answer.contains("content") && answer["content"].is_string()) {
    messages.back()["content"] = in_parts(answer["content"].get_ref<const std::string&>());
  }
  values["add_generation_prompt"] = expects_answer;
  if (with_tools) values["tools"] = probe_tools();
  for (const auto& [name, text] : {std::pair{"bos_token", "<s>"}, {"eos_token", "</s>"}}) {
    if (!template_.default_variables().contains(name)) values[name] = text;
  }
  const Result<MarkedText> text = template_.render(messages, {std::move(values)});
  return text.ok() ? text->bytes() : std::string();
}

Json answer_with(std::string text) { return make_message(Role::kAssistant, std::move(text)); }

Json thinking_answer(std::string text) {
  Json answer = answer_with(std::move(text));
  for (const std::string_view key : kReasoningKeys) answer[std::string(key)] = kThought;
  return answer;
}

std::string Frame::answer_in(const std::string& render) const {
  if (render.starts_with(prompt)) return render.substr(prompt.size());
  return render.substr(common_words_at_begin(render, before_reply));
}

std::optional<Frame> frame_of(const TemplateProbe& probe, bool with_tools) {
  Frame frame;
  frame.prompt = probe.render(nullptr, with_tools);
  const std::string render = probe.render(answer_with(kReply), with_tools);
  const size_t reply = render.rfind(kReply);
  if (frame.prompt.empty() || reply == std::string::npos) return std::nullopt;
  frame.before_reply = render.substr(0, reply);
  frame.end_of_answer = render.substr(reply + std::string_view(kReply).size());
  return frame;
}

namespace {

bool has_probe_words(std::string_view text) {
  return text.find("estrel") != text.npos || text.find("4711") != text.npos ||
         std::any_of(std::begin(kProbeKeys), std::end(kProbeKeys),
                     [text](std::string_view key) { return text.find(key) != text.npos; });
}

}  // namespace

bool has_probe_words(const ReplyFormat& format) {
  const std::vector<std::string_view> texts = marker_texts(format);
  return std::any_of(texts.begin(), texts.end(), [](std::string_view text) { return has_probe_words(text); });
}

}  // namespace ibid

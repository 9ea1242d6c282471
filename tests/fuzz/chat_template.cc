// A chat template of raw bytes, rendered for a growing conversation. For every template the whole render, the
// incremental one and a repeated one are equal.
#include "templates/chat_template.h"

#include <string>

#include "base/check.h"
#include "tests/fuzz/script.h"

namespace ibid::fuzz {

namespace {

// Enough for any template of a page, but so small that an input that uses all of it ends soon.
constexpr TemplateBudget kBudget = {.max_steps = 3'000, .max_depth = 24, .max_output_bytes = 8 << 10, .max_range = 300};

const Json& conversation() {
  static const Json& messages = *new Json(Json::parse(R"([
    {"role": "system", "content": "Be  brief.\n"},
    {"role": "user", "content": "What is 2+2? <|im_end|>"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\n4", "reasoning_content": "hm",
     "tool_calls": [{"type": "function", "id": "c1",
                     "function": {"name": "sum", "arguments": {"a": 2, "b": [1.5, null, true], "c": "\u00e9 {}"}}}]},
    {"role": "tool", "name": "sum", "tool_call_id": "c1", "content": "4"},
    {"role": "user", "content": [{"type": "text", "text": "it's \"so\""}, {"type": "image"}]}])"));
  return messages;
}

// Returns the text's bytes, followed by the origin of each byte.
std::string spelled(const MarkedText& text) {
  std::string bytes, origins;
  for (const MarkedText::Run run : text.runs()) {
    bytes += run.bytes;
    origins.append(run.bytes.size(), run.origin == TextOrigin::kTemplate ? 't' : 'i');
  }
  return bytes + origins;
}

bool is_budget(const Status& status) { return status.code() == ErrorCode::kTemplateBudget; }

// Appends messages one by one, and compares the incremental render with the whole one.
void check_growth(const ChatTemplate& chat_template, const TemplateVariables& variables, bool prompt) {
  TemplateVariables all = variables;
  all.values["add_generation_prompt"] = prompt;
  ConversationRenderer renderer(chat_template, all);  // the size of the variables is part of the budget
  Json messages = Json::array();
  std::string bytes;
  size_t n_unchanged = 0;
  for (const Json& message : conversation()) {
    messages.push_back(message);
    const auto whole = chat_template.render(messages, all);
    const auto delta = renderer.render(messages, n_unchanged, prompt);
    // The incremental render costs less, so it may succeed although the whole one runs out of steps.
    if (!whole.ok() && is_budget(whole.status())) return;
    CHECK_EQ(whole.ok(), delta.ok())
        << (whole.ok() ? delta : Result<ConversationRenderer::Delta>(whole.status())).status().message();
    if (!whole.ok()) {
      CHECK(whole.status().message() == delta.status().message());
      continue;
    }
    n_unchanged = messages.size();
    CHECK_LE(delta->keep_bytes, bytes.size());
    const std::string now = whole->bytes();
    CHECK(bytes.substr(0, delta->keep_bytes) + delta->text.bytes() == now) << "the incremental render differs";
    CHECK(spelled(*whole).ends_with(spelled(delta->text).substr(delta->text.bytes().size())))
        << "the incremental render has different origins";
    bytes = now;
  }
}

}  // namespace

void chat_template(Input input) {
  const auto compiled = ChatTemplate::compile(text_of(input), kBudget);
  if (!compiled.ok()) {
    CHECK(!compiled.status().message().empty());
    return;
  }
  TemplateVariables variables;
  variables.values = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"enable_thinking", input.size() % 2 == 0}};
  const auto first = compiled->render(conversation(), variables);
  const auto second = compiled->render(conversation(), variables);
  CHECK_EQ(first.ok(), second.ok());
  if (!first.ok()) CHECK(first.status().message() == second.status().message());
  if (first.ok()) CHECK(spelled(*first) == spelled(*second));
  if (!first.ok() && is_budget(first.status())) return;
  check_growth(*compiled, variables, input.size() % 3 == 0);
}

}  // namespace ibid::fuzz

#include "templates/chat_template.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json_limits.h"
#include "templates/jinja/interpreter.h"
#include "templates/jinja/python_text.h"

namespace ibid {

struct ChatTemplate::Parts {
  jinja::Program program;
  std::optional<jinja::Program> program_for_tools;
  std::string source, source_for_tools;
  Json defaults = Json::object();
  TemplateBudget budget;

  // Returns the program that renders conversations with tools if `variables` have tools, else the program for all
  // others.
  const jinja::Program& program_with(const Json& variables) const;
};

namespace {

Status check_arguments(const Json& messages, const TemplateVariables& variables) {
  if (!messages.is_array()) {
    return Status(ErrorCode::kInvalidArgument,
                  "messages are a JSON " + std::string(messages.type_name()) + "; expected an array");
  }
  if (!variables.values.is_object()) {
    return Status(ErrorCode::kInvalidArgument, "template variables are a JSON " +
                                                   std::string(variables.values.type_name()) + "; expected an object");
  }
  return {};
}

// Appended to a message's text to find the end of this text in a render. A template that trims texts removes only the
// last space of the tag.
constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";

Status not_shown() {
  return {ErrorCode::kInvalidArgument, "the chat template does not show the text that is to be continued"};
}

bool wants_generation_prompt(const TemplateVariables& variables) {
  const auto found = variables.values.find("add_generation_prompt");
  return found != variables.values.end() && *found == Json(true);
}

}  // namespace

const jinja::Program& ChatTemplate::Parts::program_with(const Json& variables) const {
  if (!program_for_tools) return program;
  const auto tools = variables.find("tools");
  const bool has_tools = tools != variables.end() && tools->is_array() && !tools->empty();
  return has_tools ? *program_for_tools : program;
}

ChatTemplate::ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::compile(std::string_view source, const TemplateBudget& budget) {
  return compile(source, budget, Json::object());
}

Result<ChatTemplate> ChatTemplate::compile(std::string_view source, const TemplateBudget& budget, Json defaults,
                                           std::string_view source_for_tools) {
  auto parts = std::make_shared<Parts>();
  TRY_ASSIGN(parts->program, jinja::Program::compile(source, budget));
  parts->source = std::string(source);
  if (!source_for_tools.empty() && source_for_tools != source) {
    TRY_ASSIGN(parts->program_for_tools, jinja::Program::compile(source_for_tools, budget));
    parts->source_for_tools = std::string(source_for_tools);
  }
  parts->defaults = std::move(defaults);
  parts->budget = budget;
  ChatTemplate result;
  result.parts_ = std::move(parts);
  return result;
}

const std::string& ChatTemplate::source() const { return parts_->source; }
const std::string& ChatTemplate::source_for_tools() const {
  return parts_->program_for_tools ? parts_->source_for_tools : parts_->source;
}
const Json& ChatTemplate::default_variables() const { return parts_->defaults; }

Result<MarkedText> ChatTemplate::render(const Json& messages, const TemplateVariables& variables) const {
  TRY(check_arguments(messages, variables));
  jinja::RunInput input;
  input.messages = &messages;
  input.variables = &variables.values;
  input.defaults = &parts_->defaults;
  input.generation_prompt = wants_generation_prompt(variables);
  input.now = variables.now;
  input.budget = parts_->budget;
  TRY_ASSIGN(jinja::RunOutput output, jinja::run(parts_->program_with(variables.values), input));
  return std::move(output.text);
}

Result<std::string> ChatTemplate::render_plain(const Json& variables, std::string_view now) const {
  if (!variables.is_object()) {
    return Status(ErrorCode::kInvalidArgument,
                  "template variables are a JSON " + std::string(variables.type_name()) + "; expected an object");
  }
  jinja::RunInput input;
  input.variables = &variables;
  input.now = now;
  input.budget = parts_->budget;
  TRY_ASSIGN(jinja::RunOutput output, jinja::run(parts_->program, input));
  return output.text.bytes();
}

Result<std::string> ChatTemplate::render_continuing(const Json& messages, const TemplateVariables& variables) const {
  TRY(check_arguments(messages, variables));
  if (wants_generation_prompt(variables)) {
    return Status(ErrorCode::kInvalidArgument,
                  "either the final message is continued or a new one begins: continue_final_message and "
                  "add_generation_prompt exclude each other");
  }
  if (messages.empty()) return Status(ErrorCode::kInvalidArgument, "there is no final message to continue");
  Json tagged = messages;
  TRY_ASSIGN(const std::string content, append_continue_tag(tagged.back()));
  TRY_ASSIGN(const MarkedText rendered, render(tagged, variables));
  std::string_view stripped = content;
  stripped.remove_prefix(jinja::leading_space(stripped));
  stripped.remove_suffix(jinja::trailing_space(stripped));
  if (rendered.view().find(stripped) == std::string_view::npos) return not_shown();
  TRY_ASSIGN(const ContinuedText text, cut_at_continue_tag(rendered, content));
  std::string out = text.text.bytes();
  if (text.is_trimmed) out.resize(out.size() - jinja::trailing_space(out));
  return out;
}

Result<std::string> append_continue_tag(Json& message) {
  Json* text = nullptr;
  const auto content = message.is_object() ? message.find("content") : message.end();
  if (content != message.end() && content->is_string()) text = &*content;
  if (content != message.end() && content->is_array()) {
    for (Json& part : *content) {
      if (part.is_object() && part.contains("text") && part["text"].is_string()) text = &part["text"];
    }
  }
  if (text == nullptr) return Status(ErrorCode::kInvalidArgument, "the answer has no text to continue");
  std::string before = text->get<std::string>();
  text->get_ref<std::string&>().append(kContinueTag);
  return before;
}

Result<ContinuedText> cut_at_continue_tag(const MarkedText& render, std::string_view content) {
  const size_t end = render.view().rfind(kContinueTag.substr(0, kContinueTag.size() - 1));
  if (end == std::string_view::npos) return not_shown();
  ContinuedText out;
  out.text.append(render, 0, end);
  out.is_trimmed = !render.view().substr(end).starts_with(kContinueTag);
  for (const size_t begin : {size_t{0}, jinja::leading_space(content)}) {
    if (out.n_content == 0 && out.text.view().ends_with(content.substr(begin))) out.n_content = content.size() - begin;
  }
  return out;
}

Json with_parsed_tool_arguments(Json message) {
  if (!message.is_object()) return message;
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return message;
  for (Json& call : *calls) {
    if (!call.is_object()) continue;
    const auto function = call.find("function");
    Json& holder = function != call.end() && function->is_object() ? *function : call;
    const auto arguments = holder.find("arguments");
    if (arguments == holder.end() || !arguments->is_string()) continue;
    auto parsed = parse_json(arguments->get_ref<const std::string&>(), "arguments of a tool call");
    if (parsed.ok() && parsed->is_object()) *arguments = std::move(*parsed);
  }
  return message;
}

struct ConversationRenderer::State {
  std::shared_ptr<const ChatTemplate::Parts> parts;
  // Shared by all copies, because values in checkpoints point into it.
  std::shared_ptr<const TemplateVariables> variables;
  std::vector<jinja::Checkpoint> checkpoints;  // checkpoints of the last render, in the order of the messages
  size_t n_messages = 0;                       // number of messages of the last render
};

ConversationRenderer::ConversationRenderer(const ChatTemplate& chat_template, TemplateVariables variables)
    : state_(std::make_unique<State>()) {
  state_->parts = chat_template.parts_;
  state_->variables = std::make_shared<const TemplateVariables>(std::move(variables));
}
ConversationRenderer::ConversationRenderer(const ConversationRenderer& other)
    : state_(std::make_unique<State>(*other.state_)) {}
ConversationRenderer& ConversationRenderer::operator=(const ConversationRenderer& other) {
  *this = ConversationRenderer(other);
  return *this;
}
ConversationRenderer::ConversationRenderer(ConversationRenderer&&) noexcept = default;
ConversationRenderer& ConversationRenderer::operator=(ConversationRenderer&&) noexcept = default;
ConversationRenderer::~ConversationRenderer() = default;

Result<ConversationRenderer::Delta> ConversationRenderer::render(const Json& messages, size_t n_unchanged,
                                                                 bool add_generation_prompt) {
  State& state = *state_;
  TRY(check_arguments(messages, *state.variables));
  n_unchanged = std::min({n_unchanged, messages.size(), state.n_messages});
  // Each checkpoint depends on more messages than the checkpoint before it, so all usable ones precede the others.
  const auto unusable = std::partition_point(
      state.checkpoints.begin(), state.checkpoints.end(), [&](const jinja::Checkpoint& checkpoint) {
        return checkpoint.usable(n_unchanged, messages.size(), add_generation_prompt);
      });
  jinja::RunInput input;
  input.messages = &messages;
  input.variables = &state.variables->values;
  input.defaults = &state.parts->defaults;
  input.generation_prompt = add_generation_prompt;
  input.now = state.variables->now;
  input.budget = state.parts->budget;
  input.resume = unusable == state.checkpoints.begin() ? nullptr : &*std::prev(unusable);
  input.take_checkpoints = true;
  TRY_ASSIGN(jinja::RunOutput output, jinja::run(state.parts->program_with(state.variables->values), input));

  Delta delta;
  delta.resumed = input.resume != nullptr;
  delta.keep_bytes = delta.resumed ? input.resume->output_bytes : 0;
  delta.bytes_rendered = output.text.size();
  delta.text = std::move(output.text);
  delta.messages_rendered = output.message_iterations;
  delta.steps = output.steps;
  state.checkpoints.erase(unusable, state.checkpoints.end());
  state.checkpoints.insert(state.checkpoints.end(), std::make_move_iterator(output.checkpoints.begin()),
                           std::make_move_iterator(output.checkpoints.end()));
  state.n_messages = messages.size();
  return delta;
}

void ConversationRenderer::forget() noexcept {
  state_->checkpoints.clear();
  state_->n_messages = 0;
}

}  // namespace ibid

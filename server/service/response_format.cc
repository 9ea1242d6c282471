#include "server/service/response_format.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "grammar/compile_budget.h"
#include "grammar/grammar.h"
#include "runtime/generate/constraint_cache.h"
#include "server/service/request_prompt.h"
#include "templates/message.h"
#include "templates/reply/reply_format.h"
#include "templates/reply/reply_parser.h"

namespace ibid::serve {
namespace {

using Constraint = std::shared_ptr<const TokenConstraint>;

constexpr const char* kProbe = "Kestrelquestion";

std::string solid(std::string_view marker) { return std::string(trim_marker_spaces(marker)); }

// Returns the preamble before a formatted answer or a call in templates of gpt-oss: the end of the reasoning, then the
// marker of the channel.
Preamble lead_in_channels(const ChannelSyntax& channels, bool to_a_call) {
  Preamble lead;
  if (!channels.reasoning_channels.empty() && !channels.ends.empty()) {
    lead.begin = channels.channel + channels.reasoning_channels.front() + channels.body_begin;
    lead.end = channels.ends.front() + channels.own_begin;
  }
  if (!to_a_call) lead.opening = channels.channel + channels.content_channel + channels.body_begin;
  return lead;
}

// Returns the text that the model may write before a call or a formatted answer. The template's variables decide
// whether the prompt has already opened or closed the reasoning, so a short prompt is rendered to find out.
Preamble lead_in_of(const std::shared_ptr<Engine>& engine, const AnswerRequest& request, bool to_a_call) {
  // A plain prompt has no reasoning, and a continued answer has its reasoning already.
  if (request.prompt || request.continues) return {};
  const ReplyFormat& format = engine->state().reply_format();
  if (format.channels) return lead_in_channels(*format.channels, to_a_call);
  if (!format.reasoning) return {};
  Preamble lead{.begin = solid(format.reasoning->begin), .end = solid(format.reasoning->end)};
  if (lead.begin.empty() || lead.end.empty()) return {};
  AnswerRequest probe{.messages = Json::array({make_message(Role::kUser, kProbe)}),
                      .tools = request.tools,
                      .variables = request.variables};
  const Result<MarkedText> prompt = rendered(*engine, probe, probe.messages);
  if (!prompt.ok()) return lead;  // the turn will report the error
  const std::string_view text = prompt->bytes();
  const size_t asked = text.rfind(kProbe);
  const std::string_view behind = asked == text.npos ? std::string_view() : text.substr(asked);
  if (behind.find(lead.end) != behind.npos) return {};
  lead.is_open = opens_reasoning(format, behind);
  return lead;
}

// True if the answer may be a call in place of the response format.
bool may_call(const Engine& engine, const AnswerRequest& request) {
  return !request.prompt && request.tool_choice.kind == ToolChoice::Kind::kAuto &&
         engine.state().reply_format().calls && !callable_tools(request.tools).empty();
}

// Returns the grammar of one or several calls of the tools and no other text.
Result<RequiredCalls> section_of_calls(const CallSyntax& syntax, const std::vector<CallableTool>& tools,
                                       Arguments arguments, CompileBudget& budget) {
  TRY_ASSIGN(RequiredCalls::Call call, call_of(syntax, tools, arguments, budget));
  RequiredCalls section;
  section.calls.push_back(std::move(call));
  section.several = syntax.several;
  section.separator = syntax.separator;
  section.end = syntax.section_end;
  return section;
}

// A key of the engine's constraint cache. The length of each part precedes it, so that keys are unambiguous.
class Key {
 public:
  explicit Key(std::string_view kind) : text_(kind) {}
  Key& add(std::string_view part) {
    text_ += std::to_string(part.size()) + ':';
    text_ += part;
    return *this;
  }
  Key& add(const Preamble& lead) {
    return add(lead.begin).add(lead.end).add(lead.is_open ? "1" : "").add(lead.opening);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

Result<Constraint> constraint_of_call(const std::shared_ptr<Engine>& engine, const AnswerRequest& request) {
  const ToolChoice& choice = request.tool_choice;
  const Preamble lead = lead_in_of(engine, request, true);
  const bool several = choice.parallel && choice.kind == ToolChoice::Kind::kRequired;
  const Key key = Key("call").add(json_to_string(request.tools)).add(choice.name).add(several ? "1" : "").add(lead);
  return engine->state().constraints().make(
      key.text(),
      [&](CompileBudget& budget) -> Result<Grammar> {
        const ReplyFormat& format = engine->state().reply_format();
        if (!format.calls) {
          return {ErrorCode::kUnsupported, "tool_choice: " + engine->name() + " has no form of tool calls"};
        }
        const std::vector<CallableTool> tools = callable_tools(request.tools, choice.name);
        if (tools.empty())
          return {ErrorCode::kInvalidArgument, "tool_choice: there is no tool \"" + choice.name + "\""};
        TRY_ASSIGN(RequiredCalls demanded, section_of_calls(*format.calls, tools, Arguments::kBySchema, budget));
        demanded.lead = lead;
        demanded.lead.opening += format.calls->section_begin;
        demanded.several &= several;
        return compile_calls(demanded);
      },
      request.options.stop);
}

// Prefix of errors in the cache. The name of the request's field replaces it, because this name may differ for the same
// format.
constexpr std::string_view kOfForm = "form: ";

Status in_field(const Status& status, const ResponseFormat& form) {
  const std::string& message = status.message();
  if (status.ok() || form.field.empty() || !message.starts_with(kOfForm)) return status;
  return {status.code(), form.field + ": " + message.substr(kOfForm.size())};
}

Result<Grammar> compile_form(const ResponseFormat& form, CompileBudget& budget) {
  switch (form.kind) {
    case ResponseFormat::Kind::kText:
    case ResponseFormat::Kind::kJsonObject: return compile_any_json(AnyJson::kObject);
    case ResponseFormat::Kind::kJsonSchema:
      return compile_json_schema(form.text, {.strict = form.standard_schema.value_or(false), .for_answers = true},
                                 &budget);
    case ResponseFormat::Kind::kGbnf: return compile_gbnf(form.text);
    case ResponseFormat::Kind::kRegex: return compile_regex(form.text);
    case ResponseFormat::Kind::kChoices: return compile_choices(form.choices);
  }
  return compile_any_json(AnyJson::kObject);
}

Result<Grammar> grammar_of_form(const ResponseFormat& form, CompileBudget& budget) {
  Result<Grammar> grammar = compile_form(form, budget);
  if (grammar.ok() || grammar.status().code() == ErrorCode::kCancelled) return grammar;
  return {grammar.status().code(), std::string(kOfForm) + grammar.status().message()};
}

// Makes the constraint of the response format. If the model may call tools, also allows a call in place of the format.
Result<Constraint> constraint_of_form(const std::shared_ptr<Engine>& engine, const AnswerRequest& request) {
  const ResponseFormat& form = request.form;
  const CallSyntax* calls = may_call(*engine, request) ? &*engine->state().reply_format().calls : nullptr;
  const Preamble lead = lead_in_of(engine, request, false);
  const bool parallel = request.tool_choice.parallel;
  Key key = Key("form").add(std::to_string(static_cast<int>(form.kind))).add(form.text).add(lead);
  key.add(form.standard_schema.value_or(false) ? "1" : "");
  for (const std::string& choice : form.choices) key.add(choice);
  if (calls != nullptr) key.add("tools").add(json_to_string(request.tools)).add(parallel ? "1" : "");
  ConstraintCache& constraints = engine->state().constraints();
  Result<Constraint> made = constraints.make(
      key.text(),
      [&](CompileBudget& budget) -> Result<Grammar> {
        TRY_ASSIGN(Grammar grammar, grammar_of_form(form, budget));
        if (calls == nullptr) return lead.empty() ? grammar : compile_after(lead, grammar);
        TRY_ASSIGN(RequiredCalls either,
                   section_of_calls(*calls, callable_tools(request.tools), Arguments::kAsToolsSay, budget));
        either.lead = lead_in_of(engine, request, true);
        either.lead.opening += calls->section_begin;
        either.several &= parallel;
        either.otherwise = {.words = lead.opening, .grammar = std::move(grammar)};
        return compile_calls(either);
      },
      request.options.stop);
  if (!made.ok()) return in_field(made.status(), form);
  return made;
}

// Makes a constraint that allows any text and only limits its calls as the request says: no calls, at most one,
// arguments by the tool's schema.
Result<Constraint> constraint_of_text(const std::shared_ptr<Engine>& engine, const AnswerRequest& request) {
  const ToolChoice& choice = request.tool_choice;
  const bool none = choice.kind == ToolChoice::Kind::kNone;
  const ReplyFormat& format = engine->state().reply_format();
  const std::vector<CallableTool> tools = callable_tools(request.tools);
  const bool any_strict = std::ranges::any_of(tools, &CallableTool::strict);
  const bool asks = none || !choice.parallel || any_strict;
  if (request.prompt || !format.calls || tools.empty() || !asks) return Constraint();
  const Preamble lead = lead_in_of(engine, request, true);
  const Key key = Key("text").add(none ? "" : json_to_string(request.tools)).add(choice.parallel ? "1" : "").add(lead);
  return engine->state().constraints().make(
      key.text(),
      [&](CompileBudget& budget) -> Result<Grammar> {
        CallsInText text{.lead = lead, .several = choice.parallel};
        if (none) {
          text.begins = begins_of_calls(*format.calls, nullptr, false);
        } else {
          TRY_ASSIGN(const RequiredCalls::Call one, call_of(*format.calls, tools, Arguments::kAsToolsSay, budget));
          text.begins = begins_of_calls(*format.calls, &one, choice.parallel);
        }
        return compile_calls_in_text(text);
      },
      request.options.stop);
}

// Allows the same tokens at every place. The answer can end only with an allowed token that ends a turn.
class AllowedTokens final : public TokenConstraint {
 public:
  AllowedTokens(TokenMask mask, bool may_end) : mask_(std::move(mask)), may_end_(may_end) {}

  void allowed(TokenMask& mask) const override { mask.add_words(mask_.words()); }
  bool may_end() const override { return may_end_; }
  void push(TokenId /*id*/) override {}
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<AllowedTokens>(*this); }

 private:
  TokenMask mask_;
  bool may_end_;
};

Result<Constraint> constraint_of_tokens(const Tokenizer& tokenizer, const AnswerRequest& request) {
  if (request.form.kind != ResponseFormat::Kind::kText || (request.tools.is_array() && !request.tools.empty())) {
    return {ErrorCode::kUnsupported, "allowed_token_ids: cannot be combined with a response format or tools"};
  }
  TokenMask mask(tokenizer.vocab_size());
  for (const TokenId id : request.allowed_tokens) {
    if (static_cast<size_t>(id) >= tokenizer.vocab_size()) {
      return {ErrorCode::kInvalidArgument, "allowed_token_ids: token id " + std::to_string(id) +
                                               " is out of vocabulary: the model has " +
                                               std::to_string(tokenizer.vocab_size()) + " tokens"};
    }
    mask.add(id);
  }
  const bool may_end = std::ranges::any_of(tokenizer.end_of_turn(), [&](TokenId id) { return mask.has(id); });
  return Constraint(std::make_shared<AllowedTokens>(std::move(mask), may_end));
}

}  // namespace

Result<Constraint> constraint_for(const std::shared_ptr<Engine>& engine, const AnswerRequest& request) {
  if (!request.allowed_tokens.empty()) return constraint_of_tokens(engine->state().tokenizer(), request);
  const bool has_form = request.form.kind != ResponseFormat::Kind::kText;
  if (!request.tool_choice.demands_call()) {
    return has_form ? constraint_of_form(engine, request) : constraint_of_text(engine, request);
  }
  return constraint_of_call(engine, request);
}

}  // namespace ibid::serve

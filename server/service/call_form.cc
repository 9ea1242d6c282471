#include "server/service/response_format.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json_limits.h"
#include "grammar/grammar.h"
#include "templates/message.h"
#include "templates/reply/call_markers.h"
#include "templates/reply/call_steps.h"
#include "templates/reply/protocol_messages.h"
#include "templates/reply/reply_format.h"

namespace ibid::serve {
namespace {

using Call = RequiredCalls::Call;
using Piece = RequiredCalls::Piece;

// The format of call ids that models were trained on: nine letters and digits.
constexpr const char* kCallId = "[a-zA-Z0-9]{9}";
constexpr const char* kCallIndex = "0|[1-9][0-9]?";
// The prefix of an id that contains the tool's name.
constexpr const char* kIdOfName = "functions.";

// Returns the object that has a tool's name and parameters: its "function", or the tool itself.
const Json& function_of_tool(const Json& tool) {
  const auto function = tool.is_object() ? tool.find("function") : tool.end();
  return tool.is_object() && function != tool.end() ? *function : tool;
}

Json schema_of_arguments(const Json& function) {
  const bool has_parameters = function.contains("parameters") && function["parameters"].is_object();
  return has_parameters ? function["parameters"] : Json{{"type", "object"}};
}

// Appends literal texts and grammars to a call.
class CallWriter {
 public:
  void words(std::string_view text) {
    const bool goes_on =
        !call_.empty() && !call_.back().grammar && call_.back().text_up_to.empty() && call_.back().one_of.empty();
    if (!goes_on) call_.emplace_back();
    call_.back().words += text;
  }
  void grammar(Grammar grammar) { call_.push_back({.grammar = std::move(grammar)}); }
  void pieces(Call pieces) { std::move(pieces.begin(), pieces.end(), std::back_inserter(call_)); }
  Status regex(const char* pattern) {
    TRY_ASSIGN(Grammar compiled, compile_regex(pattern));
    grammar(std::move(compiled));
    return {};
  }
  Call call() && { return std::move(call_); }

 private:
  Call call_;
};

// Returns the notation in which a model writes arguments, if that is not JSON.
ArgumentNotation notation_of(const CallSyntax& syntax) {
  using Form = ArgumentNotation::Form;
  const ParameterSyntax& marked = syntax.parameter;
  return {.form = syntax.arguments == ArgumentsForm::kBareObject ? Form::kBare
                  : syntax.arguments == ArgumentsForm::kKeywords ? Form::kKeywords
                                                                 : Form::kMarked,
          .before_key = marked.before_key,
          .after_value = marked.after_value,
          .after_closing_key = marked.after_closing_key,
          .before_value = marked.before_value,
          .before_other_value = marked.before_other_value,
          .quote = syntax.quote};
}

Result<Call> arguments_by_schema(const CallSyntax& syntax, const Json& schema, CompileBudget& budget) {
  if (syntax.arguments == ArgumentsForm::kJson) {
    TRY_ASSIGN(Grammar grammar, compile_parsed_json_schema(schema, {.for_answers = true}, &budget));
    return Call{{.grammar = std::move(grammar)}};
  }
  return compile_arguments(schema, notation_of(syntax), &budget);
}

Result<Call> arguments_of(const CallSyntax& syntax, const CallableTool& tool, Arguments arguments,
                          CompileBudget& budget) {
  Result<Call> exact = arguments_by_schema(syntax, tool.schema, budget);
  if (exact.ok() || exact.status().code() == ErrorCode::kCancelled) return exact;
  if (arguments == Arguments::kBySchema || tool.strict) {
    return {exact.status().code(), "tools: \"" + tool.name + "\": " + exact.status().message()};
  }
  CompileBudget for_any;  // another budget, because the request's budget may be used up
  return arguments_by_schema(syntax, Json{{"type", "object"}}, for_any);
}

bool has_part(const std::vector<CallPart>& parts, CallPart::Kind kind) {
  return std::ranges::any_of(parts, [kind](const CallPart& part) { return part.kind == kind; });
}

// Returns one call of the tool. parts: syntax.parts, or one of syntax.other_parts.
Result<Call> call_of_parts(const CallSyntax& syntax, const std::vector<CallPart>& parts, const CallableTool& tool,
                           const Call& arguments) {
  std::string name = tool.name;
  if (syntax.envelope) {
    name = json_to_string(Json(name));
    name = name.substr(1, name.size() - 2);
  }
  CallWriter out;
  for (const CallPart& part : parts) {
    switch (part.kind) {
      case CallPart::Kind::kLiteral: out.words(part.text); break;
      case CallPart::Kind::kName: out.words(name); break;
      case CallPart::Kind::kIndex: TRY(out.regex(kCallIndex)); break;
      case CallPart::Kind::kId:
        if (has_part(parts, CallPart::Kind::kName)) {
          TRY(out.regex(kCallId));
        } else {  // the tool's name is part of the id
          out.words(kIdOfName + name + ":");
          TRY(out.regex(kCallIndex));
        }
        break;
      case CallPart::Kind::kArguments: out.pieces(arguments); break;
    }
  }
  Call call = std::move(out).call();
  if (call.empty()) call.emplace_back();
  return call;
}

// Appends one call of the tool for each notation that the syntax allows.
Status add_calls(const CallSyntax& syntax, const CallableTool& tool, Arguments arguments, CompileBudget& budget,
                 std::vector<Call>& calls) {
  TRY_ASSIGN(const Call pieces, arguments_of(syntax, tool, arguments, budget));
  TRY_ASSIGN(Call call, call_of_parts(syntax, syntax.parts, tool, pieces));
  calls.push_back(std::move(call));
  for (const std::vector<CallPart>& parts : syntax.other_parts) {
    TRY_ASSIGN(Call other, call_of_parts(syntax, parts, tool, pieces));
    calls.push_back(std::move(other));
  }
  return {};
}

// Joins calls at their common prefix. Without this, the grammar would have several parses of a text up to the place at
// which the calls differ.
Call joined(std::vector<Call> calls) {
  if (calls.size() == 1) return std::move(calls.front());
  std::string_view common = calls.front().front().words;
  for (const Call& call : calls) {
    const std::string_view words = call.front().words;
    const auto differs = std::mismatch(common.begin(), common.end(), words.begin(), words.end()).first;
    common = common.substr(0, static_cast<size_t>(differs - common.begin()));
  }
  Piece all{.words = std::string(common)};
  for (Call& call : calls) call.front().words.erase(0, all.words.size());
  all.one_of = std::move(calls);
  return {std::move(all)};
}

// Removes a word from the start of a text, ignoring additional spaces in the text. Returns false if the text starts
// with something else.
bool take_word(std::string& text, std::string_view word) {
  size_t at = 0;
  for (const char c : word) {
    while (at < text.size() && is_marker_space(text[at]) && text[at] != c) ++at;
    if (at == text.size() || text[at] != c) return false;
    ++at;
  }
  text.erase(0, at);
  return true;
}

// Returns the rest of a call after `word`; the whole call if `word` is not a part of it.
Call rest_of_call(Call call, const std::string& word) {
  std::string& words = call.front().words;
  if (take_word(words, word)) return call;
  if (const size_t at = words.find(word); at != words.npos) {  // `word`, such as "to=functions.", comes later
    words.erase(0, at + word.size());
  } else if (std::vector<Call>& ways = call.front().one_of; words.empty() && !ways.empty()) {
    for (Call& way : ways) way = rest_of_call(std::move(way), word);
    Call rest = joined(std::move(ways));
    rest.insert(rest.end(), std::next(call.begin()), call.end());
    return rest;
  }
  return call;
}

// Returns the beginning of a call that has no marker, up to its first key: for `{"name": "NAME` it is `{"name"`.
std::string plain_beginning(std::string_view text) {
  text = trim_marker_spaces(text);
  if (text.ends_with('"')) text = trim_marker_spaces(text.substr(0, text.size() - 1));
  if (text.ends_with(':')) text = trim_marker_spaces(text.substr(0, text.size() - 1));
  std::string solid;
  for (const char c : text) {
    if (!is_marker_space(c)) solid += c;
  }
  return solid;
}

std::string words_before_name(const CallSyntax& syntax) {
  const CallPart& first = syntax.parts.front();
  return syntax.section_begin + (first.kind == CallPart::Kind::kLiteral ? first.text : std::string());
}

// The reply parser also accepts calls in which another member precedes the name, but the grammar does not. So no call
// may begin with one of these members.
void add_other_beginnings(const CallSyntax& syntax, std::vector<CallsInText::Begin>& begins) {
  const std::string before = plain_beginning(words_before_name(syntax));
  const std::string name = json_to_string(Json(syntax.envelope->name_key));
  if (!before.ends_with(name)) return;
  for (const char* key : {"arguments", "parameters", "id", "type", "index"}) {
    const std::string other = before.substr(0, before.size() - name.size()) + json_to_string(Json(key));
    if (other != before) begins.push_back({.word = other, .only_at_beginning = true});
  }
}

}  // namespace

std::vector<CallableTool> callable_tools(const Json& tools, const std::string& only) {
  std::vector<CallableTool> out;
  if (!tools.is_array()) return out;
  for (const Json& tool : tools) {
    const std::string name(tool_name(tool));
    if (name.empty() || (!only.empty() && name != only)) continue;
    const Json& function = function_of_tool(tool);
    const auto strict = function.find("strict");
    const std::string* description = text_member(function, "description");
    out.push_back({name, description == nullptr ? std::string() : *description, schema_of_arguments(function),
                   strict != function.end() && *strict == Json(true)});
  }
  return out;
}

Result<Call> call_of(const CallSyntax& syntax, const std::vector<CallableTool>& tools, Arguments arguments,
                     CompileBudget& budget) {
  std::vector<Call> calls;
  if (syntax.parts.empty()) return {ErrorCode::kUnsupported, "the model's tool call syntax is not supported"};
  for (const CallableTool& tool : tools) {
    TRY(add_calls(syntax, tool, arguments, budget, calls));
  }
  if (calls.empty()) return {ErrorCode::kInvalidArgument, "tools: a tool call is required, but no tool is available"};
  return joined(std::move(calls));
}

std::vector<CallsInText::Begin> begins_of_calls(const CallSyntax& syntax, const Call* one, bool several) {
  // If calls have no marker, they begin as JSON does, and an answer has only one call: nothing would mark the beginning
  // of a second one.
  const bool ends = std::ranges::any_of(syntax.triggers, is_plain_trigger);
  std::vector<CallsInText::Begin> begins;
  for (const std::string& trigger : syntax.triggers) {
    const bool at_beginning = is_plain_trigger(trigger);
    const std::string word = at_beginning ? plain_beginning(words_before_name(syntax)) : trigger;
    if (word.empty()) continue;
    begins.push_back({.word = word, .only_at_beginning = at_beginning, .ends = ends});
    if (one == nullptr) continue;
    Call rest = *one;
    std::string& first = rest.front().words;
    first.insert(0, syntax.section_begin);
    const bool opens_section = take_word(first, word);
    if (!opens_section) rest = rest_of_call(*one, word);
    if (several && syntax.several && (ends || !syntax.section_begin.empty())) {
      Call next = *one;
      next.front().words.insert(0, syntax.separator);
      rest.push_back({.one_of = {std::move(next)}, .repeats = true});
    }
    if (opens_section) rest.push_back({.words = syntax.section_end});
    begins.back().rest = std::move(rest);
  }
  // The parser also accepts other spellings of the text that opens a call. They are forbidden here, because the grammar
  // `rest` continues only the template's spelling.
  for (const std::string& opener : make_call_steps(syntax).other_openers) begins.push_back({.word = opener});
  if (ends && syntax.envelope) add_other_beginnings(syntax, begins);
  return begins;
}

}  // namespace ibid::serve

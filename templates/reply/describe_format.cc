#include <string>
#include <string_view>

#include "templates/reply/reply_format.h"

namespace ibid {
namespace {

// Line breaks would tear the line.
std::string on_one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string describe_arguments(const CallSyntax& syntax) {
  switch (syntax.arguments) {
    case ArgumentsForm::kJson: return "{...}";
    case ArgumentsForm::kBareObject: return "{key:" + syntax.quote + "value" + syntax.quote + "}";
    case ArgumentsForm::kKeywords: return "(key=value)";
    case ArgumentsForm::kParameters: break;
  }
  const ParameterSyntax& one = syntax.parameter;
  return one.before_key + "KEY" + one.before_value + "VALUE" + one.after_value;
}

}  // namespace

std::string describe_calls(const ReplyFormat& format) {
  if (!format.calls) return {};
  const CallSyntax& syntax = *format.calls;
  std::string text = syntax.section_begin;
  for (const CallPart& part : syntax.parts) {
    switch (part.kind) {
      case CallPart::Kind::kLiteral: text += part.text; break;
      case CallPart::Kind::kName: text += "NAME"; break;
      case CallPart::Kind::kId: text += "ID"; break;
      case CallPart::Kind::kIndex: text += "INDEX"; break;
      case CallPart::Kind::kArguments: text += describe_arguments(syntax); break;
    }
  }
  return on_one_line(text + syntax.section_end);
}

std::string describe_reasoning(const ReplyFormat& format) {
  if (format.channels) {
    std::string text;
    for (const std::string& channel : format.channels->reasoning_channels) {
      text += (text.empty() ? "" : ", ") + format.channels->channel + channel;
    }
    return text;
  }
  if (!format.reasoning) return {};
  return on_one_line(format.reasoning->begin + " ... " + format.reasoning->end);
}

}  // namespace ibid

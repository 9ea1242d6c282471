#include "templates/reply/reply_format.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {
namespace {

// Escapes line breaks.
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
  const std::string closing = one.after_closing_key.empty() ? "" : "KEY" + one.after_closing_key;
  return one.before_key + "KEY" + one.before_value + "VALUE" + one.after_value + closing;
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

std::vector<std::string_view> marker_texts(const ReplyFormat& format) {
  std::vector<std::string_view> texts = {format.content_begin, format.content_end};
  texts.insert(texts.end(), format.dropped.begin(), format.dropped.end());
  const auto add = [&texts](std::initializer_list<std::string_view> more) {
    texts.insert(texts.end(), more.begin(), more.end());
  };
  if (format.reasoning) add({format.reasoning->begin, format.reasoning->end});
  const auto add_calls = [&](const CallSyntax& calls) {
    add({calls.section_begin, calls.separator, calls.section_end, calls.quote, calls.optional_begin});
    add({calls.parameter.before_key, calls.parameter.before_value, calls.parameter.before_other_value,
         calls.parameter.after_value, calls.parameter.after_closing_key});
    for (const CallPart& part : calls.parts) add({part.text});
    if (calls.envelope) add({calls.envelope->before, calls.envelope->after});
    for (const std::string& trigger : calls.triggers) add({trigger});
  };
  if (format.calls) add_calls(*format.calls);
  if (format.channels) {
    const ChannelSyntax& channels = *format.channels;
    add({channels.begin, channels.channel, channels.body_begin, channels.recipient, channels.content_channel});
    for (const auto* names : {&channels.ends, &channels.reasoning_channels}) {
      for (const std::string& name : *names) add({name});
    }
    if (channels.body_calls) add_calls(*channels.body_calls);
  }
  return texts;
}

ReasoningSyntax reasoning_of(const ReplyFormat& format) {
  const std::optional<ReasoningSyntax>& known = format.reasoning;
  if (known && !known->begin.empty() && !known->end.empty()) return *known;
  return {"<think>", "</think>"};
}

bool is_special_token(std::string_view marker) {
  return marker.find('|') != marker.npos || marker.find("\uFF5C") != marker.npos;
}

std::string special_tag_of(std::string_view marker) {
  const std::vector<std::string> words = solid_marker_words(marker);
  const auto is_tag = [](const std::string& word) { return word.size() > 2 && (word[0] == '<' || word[0] == '['); };
  if (!is_special_token(marker) || std::ranges::count_if(words, is_tag) != 1 || !is_tag(words.front())) return {};
  return words.front();
}

ReplyFormat without_calls(ReplyFormat format) {
  format.calls.reset();
  return format;
}

bool is_marker(const ReplyFormat& format, std::string_view token) {
  const auto is_in = [token](std::string_view text) { return text.find(token) != text.npos; };
  const ReasoningSyntax reasoning = reasoning_of(format);
  return !token.empty() &&
         (is_in(reasoning.begin) || is_in(reasoning.end) || std::ranges::any_of(marker_texts(format), is_in));
}

namespace {

bool is_upper_name(char c) { return (c >= 'A' && c <= 'Z') || c == '_' || c == '/' || c == ' '; }

bool joins_words(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == '`' || static_cast<unsigned char>(c) >= 0x80;
}

size_t word_length(std::string_view text) {
  const auto run = [text](size_t n, auto&& belongs) {
    while (n < text.size() && belongs(text[n])) ++n;
    return n;
  };
  const char first = text.front();
  if (is_marker_space(first)) return run(1, is_marker_space);
  if (first == '<') {
    const size_t end = run(1, [](char c) { return c != '<' && c != '>' && !is_marker_space(c); });
    return end < text.size() && text[end] == '>' ? end + 1 : end;
  }
  if (first == '[') {
    const size_t end = run(1, is_upper_name);
    return end > 1 && end < text.size() && text[end] == ']' ? end + 1 : 1;
  }
  return joins_words(first) ? run(1, joins_words) : 1;
}

}  // namespace

bool is_marker_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

std::vector<std::string_view> marker_words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    words.push_back(text.substr(0, word_length(text)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

std::vector<std::string> solid_marker_words(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string_view word : marker_words(text)) {
    if (!is_marker_space(word.front())) words.emplace_back(word);
  }
  return words;
}

size_t common_words_at_begin(std::string_view a, std::string_view b) {
  const auto in_a = marker_words(a), in_b = marker_words(b);
  size_t n = 0;
  for (size_t i = 0; i < std::min(in_a.size(), in_b.size()) && in_a[i] == in_b[i]; ++i) n += in_a[i].size();
  return n;
}

std::string_view trim_marker_spaces(std::string_view text) {
  while (!text.empty() && is_marker_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_marker_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace ibid

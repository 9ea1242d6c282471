#include "templates/jinja/text_ops.h"

#include <algorithm>

#include "base/utf8.h"
#include "templates/jinja/unicode_text.h"

namespace ibid::jinja {
namespace {

void charge(RenderState& state, const MarkedText& text) {
  state.meter.scan(text.size());
  state.meter.create(text.size() + sizeof(MarkedText));
}

// Start of the character that ends at `end`. REQUIRES: end > 0.
size_t char_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin + char_length(text, begin) == end ? begin : end - 1;
}

bool is_line_end(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

MarkedText strip(RenderState& state, const MarkedText& text, Side side) {
  charge(state, text);
  const size_t begin = side == Side::kRight ? 0 : leading_space(text.view());
  const size_t end =
      side == Side::kLeft ? text.size() : text.size() - trailing_space(text.view().substr(begin));
  return text.substr(begin, end);
}

MarkedText strip(RenderState& state, const MarkedText& text, Side side, std::string_view chars) {
  charge(state, text);
  const std::string_view bytes = text.view();
  const auto is_in_set = [&](size_t begin, size_t end) {
    state.meter.scan(chars.size());
    const std::string_view wanted = bytes.substr(begin, end - begin);
    for (size_t i = 0; i < chars.size(); i += char_length(chars, i)) {
      if (chars.substr(i, char_length(chars, i)) == wanted) return true;
    }
    return false;
  };
  size_t begin = 0, end = text.size();
  while (side != Side::kRight && begin < end && is_in_set(begin, begin + char_length(bytes, begin))) {
    begin += char_length(bytes, begin);
  }
  while (side != Side::kLeft && begin < end) {
    const size_t last = char_before(bytes, end);
    if (!is_in_set(last, end)) break;
    end = last;
  }
  return text.substr(begin, end);
}

MarkedText replace(RenderState& state, const MarkedText& text, std::string_view old,
                     const MarkedText& with, int64_t max) {
  charge(state, text);
  MarkedText out;
  size_t done = 0;
  const auto left = [&max] { return max < 0 || max-- > 0; };
  const auto put = [&] {
    state.meter.create(with.size());
    state.meter.check_string(out.size() + with.size());
    out.append(with);
  };
  if (old.empty()) {
    // Between all characters and at both ends.
    for (;;) {
      if (!left()) break;
      put();
      if (done >= text.size()) break;
      const size_t next = done + char_length(text.view(), done);
      out.append(text.substr(done, next));
      done = next;
    }
  } else {
    for (size_t at = text.view().find(old); at != std::string_view::npos && left();
         at = text.view().find(old, done)) {
      out.append(text.substr(done, at));
      put();
      done = at + old.size();
    }
  }
  out.append(text.substr(done, text.size()));
  return out;
}

std::vector<MarkedText> split_space(RenderState& state, const MarkedText& text, int64_t max,
                                      bool from_right) {
  charge(state, text);
  std::vector<MarkedText> parts;
  const std::string_view bytes = text.view();
  size_t begin = leading_space(bytes);
  size_t end = bytes.size() - trailing_space(bytes.substr(begin));
  // The part that is left when `max` is reached keeps its white space.
  const auto cut = [&](size_t from, size_t to) {
    state.meter.create(sizeof(MarkedText));
    parts.push_back(text.substr(from, to));
  };
  if (from_right) {
    while (end > begin) {
      size_t word = end;
      if (max < 0 || static_cast<int64_t>(parts.size()) < max) {
        while (word > begin && trailing_space(bytes.substr(begin, word - begin)) == 0)
          word = char_before(bytes, word);
      } else {
        word = begin = 0;
      }
      cut(word, end);
      end = word - trailing_space(bytes.substr(begin, word - begin));
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  while (begin < end) {
    size_t word = begin;
    if (max < 0 || static_cast<int64_t>(parts.size()) < max) {
      while (word < end) {
        const DecodedChar c = utf8_decode(bytes, word);
        if (c.valid && is_space(c.code_point)) break;
        word += c.length;
      }
    } else {
      word = end = bytes.size();
    }
    cut(begin, word);
    begin = word + leading_space(bytes.substr(word, end - word));
  }
  return parts;
}

std::vector<MarkedText> split(RenderState& state, const MarkedText& text, std::string_view separator,
                                int64_t max, bool from_right) {
  charge(state, text);
  std::vector<MarkedText> parts;
  const auto cut = [&](size_t from, size_t to) {
    state.meter.create(sizeof(MarkedText));
    parts.push_back(text.substr(from, to));
  };
  const std::string_view bytes = text.view();
  if (!from_right) {
    size_t begin = 0;
    for (size_t at = bytes.find(separator); at != std::string_view::npos && max != 0;
         at = bytes.find(separator, begin)) {
      cut(begin, at);
      begin = at + separator.size();
      if (max > 0) --max;
    }
    cut(begin, text.size());
    return parts;
  }
  size_t end = text.size();
  while (max != 0 && end >= separator.size()) {
    const size_t at = bytes.rfind(separator, end - separator.size());
    if (at == std::string_view::npos) break;
    cut(at + separator.size(), end);
    end = at;
    if (max > 0) --max;
  }
  cut(0, end);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<MarkedText> split_lines(RenderState& state, const MarkedText& text, bool keep_ends) {
  charge(state, text);
  std::vector<MarkedText> lines;
  const std::string_view bytes = text.view();
  size_t begin = 0;
  for (size_t i = 0; i < bytes.size();) {
    const DecodedChar c = utf8_decode(bytes, i);
    size_t next = i + c.length;
    if (c.valid && is_line_end(c.code_point)) {
      if (c.code_point == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      state.meter.create(sizeof(MarkedText));
      lines.push_back(text.substr(begin, keep_ends ? next : i));
      begin = next;
    }
    i = next;
  }
  if (begin < bytes.size()) lines.push_back(text.substr(begin, bytes.size()));
  return lines;
}

}  // namespace ibid::jinja

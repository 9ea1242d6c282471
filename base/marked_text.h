// MarkedText: bytes, and for each byte whether the template or a message wrote it. The one text with origins: chat
// templates write it, transcripts compare it and tokenizers read it, so that the text of a message can never become a
// control token.
//
// Stored as the offsets at which the origin changes, so a text of one origin costs no more than its bytes.
// A value; comparison looks at bytes only, as templates cannot see origins. Reading is thread-safe.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ibid {

// Where a piece of text comes from, which decides what it may become.
enum class TextOrigin {
  kTemplate,  // written by the chat template: every added token is found in it
  kInput,     // written by a user, a tool or a model: added tokens with special=true are ordinary text
};

class MarkedText {
 public:
  // A stretch of one origin; never empty, and its neighbours have the other one.
  struct Run {
    std::string_view bytes;
    TextOrigin origin;
  };
  class RunIterator;
  class Runs;

  MarkedText() = default;
  MarkedText(std::string bytes, TextOrigin origin) : bytes_(std::move(bytes)), first_(origin) {}

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // The runs, in order. They are views into this text.
  Runs runs() const;

  void append(std::string_view bytes, TextOrigin origin);
  void append(const MarkedText& other);
  // Appends bytes [begin, end) of another text; offsets beyond its end count as its end. REQUIRES: begin <= end.
  void append(const MarkedText& other, size_t begin, size_t end = std::string::npos);
  void clear() noexcept {
    bytes_.clear();
    cuts_.clear();
  }
  // Takes the first n bytes away. REQUIRES: n <= size().
  void remove_prefix(size_t n);
  // Bytes [begin, end). REQUIRES: begin <= end <= size().
  MarkedText substr(size_t begin, size_t end) const;

  // REQUIRES: offset < size().
  TextOrigin origin_at(size_t offset) const;
  // kInput when any byte is: the origin of what cannot be told apart byte by byte.
  TextOrigin safe_origin() const;

 private:
  static TextOrigin other_origin(TextOrigin origin) {
    return origin == TextOrigin::kTemplate ? TextOrigin::kInput : TextOrigin::kTemplate;
  }
  TextOrigin origin_after(size_t n_cuts) const { return n_cuts % 2 == 0 ? first_ : other_origin(first_); }

  std::string bytes_;
  TextOrigin first_ = TextOrigin::kTemplate;
  std::vector<size_t> cuts_;  // ascending, in (0, size()): where the origin changes to the other one
};

class MarkedText::RunIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Run;
  using difference_type = std::ptrdiff_t;
  using pointer = const Run*;
  using reference = Run;

  RunIterator(const MarkedText& text, size_t index) : text_(&text), index_(index) {}
  Run operator*() const {
    const size_t begin = index_ == 0 ? 0 : text_->cuts_[index_ - 1];
    const size_t end = index_ < text_->cuts_.size() ? text_->cuts_[index_] : text_->size();
    return {text_->view().substr(begin, end - begin), text_->origin_after(index_)};
  }
  RunIterator& operator++() {
    ++index_;
    return *this;
  }
  void operator++(int) { ++index_; }
  bool operator==(const RunIterator& other) const { return index_ == other.index_; }

 private:
  const MarkedText* text_;
  size_t index_;
};

class MarkedText::Runs {
 public:
  explicit Runs(const MarkedText& text) : text_(&text) {}
  size_t size() const { return text_->empty() ? 0 : text_->cuts_.size() + 1; }
  RunIterator begin() const { return {*text_, 0}; }
  RunIterator end() const { return {*text_, size()}; }

 private:
  const MarkedText* text_;
};

inline MarkedText::Runs MarkedText::runs() const { return Runs(*this); }

}  // namespace ibid

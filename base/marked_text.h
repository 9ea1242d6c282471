// MarkedText: text whose bytes are marked by origin: written by the chat template, or by a message. The only text type
// with origins: chat templates write it, transcripts compare it and tokenizers read it, so that the text of a message
// can never become a control token.
//
// Stored as the bytes and the offsets at which the origin changes, so the origins of a uniform text take no memory. A
// value type; comparison ignores origins, because templates cannot see them. Reading is thread-safe.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ibid {

// Origin of a piece of text, which decides whether special tokens are recognised in it.
enum class TextOrigin {
  kTemplate,  // written by the chat template: all added tokens are recognised
  kInput,     // written by a user, a tool or a model: added tokens with special=true are ordinary text
};

class MarkedText {
 public:
  // A maximal span of one origin; never empty.
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

  // The runs, in order, as views into this text.
  Runs runs() const;

  void append(std::string_view bytes, TextOrigin origin);
  void append(const MarkedText& other);
  // Appends bytes [begin, end) of another text; offsets are clamped to its size. REQUIRES: begin <= end.
  void append(const MarkedText& other, size_t begin, size_t end = std::string::npos);
  void clear() noexcept {
    bytes_.clear();
    cuts_.clear();
  }
  // Removes the first n bytes. REQUIRES: n <= size().
  void remove_prefix(size_t n);
  // Bytes [begin, end). REQUIRES: begin <= end <= size().
  MarkedText substr(size_t begin, size_t end) const;

  // REQUIRES: offset < size().
  TextOrigin origin_at(size_t offset) const;
  // kInput if any byte is kInput, else kTemplate: for consumers that need one origin for the whole text.
  TextOrigin safe_origin() const;

 private:
  static TextOrigin other_origin(TextOrigin origin) {
    return origin == TextOrigin::kTemplate ? TextOrigin::kInput : TextOrigin::kTemplate;
  }
  TextOrigin origin_after(size_t n_cuts) const { return n_cuts % 2 == 0 ? first_ : other_origin(first_); }

  std::string bytes_;
  TextOrigin first_ = TextOrigin::kTemplate;
  std::vector<size_t> cuts_;  // ascending, in (0, size()): offsets at which the origin of the bytes changes
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

// Grapheme clusters (UAX 29) and their width in terminal columns. A reader sees a cluster as one character: a letter
// with its marks, a Hangul syllable, a flag, an emoji family. Widths are a convention: some terminals show an emoji
// family as several characters, and a program cannot detect that. Text is UTF-8; an invalid byte is a cluster of its
// own. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ibid {

// Returns the end of the cluster that begins at `offset`. REQUIRES: offset < text.size().
size_t grapheme_end(std::string_view text, size_t offset);
// Returns the start of the cluster that ends at `offset`. REQUIRES: 0 < offset <= text.size().
size_t grapheme_begin(std::string_view text, size_t offset);

// Returns the columns of one cluster. Returns 0 for an invisible cluster, and for a tab, whose width depends on its
// column.
size_t grapheme_columns(std::string_view cluster);

// Distance of tab stops in columns.
inline constexpr size_t kTabColumns = 8;
// Returns the columns of a cluster on a terminal that joins no emoji: the most columns on any terminal. A row planned
// with these widths is never wrapped by the terminal itself.
size_t widest_columns(std::string_view cluster);
// Returns the columns of a text in one row. REQUIRES: it has no tabs or newlines.
size_t text_columns(std::string_view text);
size_t widest_text_columns(std::string_view text);
// True if the text is equally wide on terminals that join emoji and on terminals that do not.
bool terminals_agree(std::string_view text);

// True if lines may break before and after the character at `offset` without a blank, as in Chinese and Japanese.
// Closing punctuation (a full stop, a bracket) must not be separated from the character before it.
bool breaks_without_blank(std::string_view text, size_t offset);
bool closes_a_phrase(std::string_view text, size_t offset);

}  // namespace ibid

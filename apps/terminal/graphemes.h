// Grapheme clusters (UAX 29), and how many columns of a terminal each fills. A cluster is one character to a reader:
// a letter with its marks, a syllable of Hangul, a flag, a family of emoji. Columns are an agreement: a terminal that
// does not join emoji shows a family as several characters, and no program can find that out. Text is UTF-8; an
// invalid byte stands for itself. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ibid {

// Where the cluster that begins at `offset` ends. REQUIRES: offset < text.size().
size_t grapheme_end(std::string_view text, size_t offset);
// Where the cluster that ends at `offset` begins. REQUIRES: 0 < offset <= text.size().
size_t grapheme_begin(std::string_view text, size_t offset);

// Columns of one cluster; 0 for one that shows nothing. A tab, which depends on where it stands, is 0 here.
size_t grapheme_columns(std::string_view cluster);

// A tab reaches to the next multiple of so many columns.
inline constexpr size_t kTabColumns = 8;
// The most columns that a terminal may give it, namely one that joins nothing: a row that is planned with these
// breaks nowhere by itself.
size_t widest_columns(std::string_view cluster);
// Columns of a text that stands in one row. No tabs, no newlines.
size_t text_columns(std::string_view text);
size_t widest_text_columns(std::string_view text);
// Whether a terminal that joins nothing gives the text as many columns as one that joins.
bool terminals_agree(std::string_view text);

// Whether lines may break in front of and behind the character at `offset` without a blank, as in Chinese and
// Japanese; not in front of what closes (a full stop, a bracket), which belongs to the character before.
bool breaks_without_blank(std::string_view text, size_t offset);
bool closes_a_phrase(std::string_view text, size_t offset);

}  // namespace ibid

// Markers as words: what templates write around names and arguments ("</parameter>\n<parameter="), cut where models may
// space it otherwise. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ibid {

bool is_marker_space(char c);

// The words of a text, in order; together they are the text. A word is a run of spaces, a tag (<...>, which ends at
// '>', or in front of a space or another '<'), a name in brackets ("[TOOL_CALLS]"), a run of letters, digits and what
// joins them, or any other character alone.
std::vector<std::string_view> marker_words(std::string_view text);
// The same without the runs of spaces.
std::vector<std::string> solid_marker_words(std::string_view text);

// How many bytes of whole words two texts have in common at their beginnings.
size_t common_words_at_begin(std::string_view a, std::string_view b);

std::string_view trim_marker_spaces(std::string_view text);

}  // namespace ibid

// Formats figures as table rows for the terminal while they are measured. Lines have at most 78 characters, so that
// they fit 80 columns, and include their line ends. Text only.
//                                      median      quartiles         work   of peak
//    decode at depth 1024           307.5 tok/s    297.5-312.5    30.0 GB/s      73 %
//      llama.cpp                  123.0 tok/s          2.50x
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/lab/figure.h"

namespace ibid {

inline constexpr size_t kTableColumns = 78;

// Explains the rows of these kinds, and the columns, in a line or two each. Ignores unknown kinds.
std::string figure_legend(const std::vector<const char*>& kinds, bool with_rivals);

// figure_header() returns the column headings of all rows except those of a growing conversation. conversation_header()
// returns the headings of these rows, with an explanation.
std::string figure_header();
std::string conversation_header();

// A figure's row, followed by a line for every other engine that did the same work: its value, and the ratio of the
// two.
std::string figure_row(const Figure& figure, std::span<const Rival> rivals);

// Describes `step`, the largest drop of the prefill rate between two lengths. `again` is the same step measured a
// second time; its `from` is 0 if there was no second measurement. Returns an empty string if there is no drop.
std::string prefill_step_line(const PrefillStep& step, const PrefillStep& again);

// Formats with enough digits to compare, never with an exponent: 1.25, 43.7, 5079.
std::string short_number(double value);

}  // namespace ibid

// Figures as a person reads them while they are measured: no line is longer than 78 characters, which a terminal of 80
// columns shows whole. Lines come with their ends. Text only: nothing is measured here.
//
//                                     median      quartiles         work   of peak
//   decode behind 1024           307.5 tok/s    297.5-312.5    30.0 GB/s      73 %
//     llama.cpp                  123.0 tok/s          2.50x
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/lab/figure.h"

namespace ibid {

inline constexpr size_t kTableColumns = 78;

// The meaning of the rows of these kinds and of the columns, a line or two each. Unknown kinds are passed over.
std::string figure_legend(const std::vector<const char*>& kinds, bool with_rivals);

// The columns of every row but those of a growing conversation, which have their own, explained in front of them.
std::string figure_header();
std::string conversation_header();

// A figure's row, and under it a line for every rival that did the same work: its value, and how many times better
// the figure is.
std::string figure_row(const Figure& figure, std::span<const Rival> rivals);

// The largest fall of the prefill rate in words. `again` is the same step measured a second time, with `from` 0 where
// that was not done. Empty when there is no step.
std::string prefill_step_line(const PrefillStep& step, const PrefillStep& again);

// Enough digits to compare, never an exponent: 1.25, 43.7, 5079.
std::string short_number(double value);

}  // namespace ibid

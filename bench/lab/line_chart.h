// LineChart: a line chart as an SVG element for an HTML page. Series names are at the ends of the lines. Colours come
// from the page's style sheet (classes "axis", "grid" and s0, s1, ... for the series), so that they follow the reader's
// light or dark mode. Plain data and text, independent of the measurements.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ibid {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x >= 0 ascending; y > 0 if the y axis is logarithmic
  std::string note = {};                          // shown below the name, at the end of the line
};

// Size in pixels, for text of 13 pixels; the page scales the whole drawing. Phones get a separate drawing, because the
// text of a wide one would be too small.
struct ChartSize {
  double width, height;
  double names_width;  // space for the names at the right
};
inline constexpr ChartSize kWideChart = {760, 400, 160};
inline constexpr ChartSize kNarrowChart = {360, 330, 112};

struct LineChart {
  std::string title;  // for screen readers
  std::string x_name, y_name;
  bool log_y = false;
  std::vector<ChartSeries> series;  // in the order of their classes
};

// Returns <svg> ... </svg>, well-formed. Each point has the marker shape of its series and a tooltip with its numbers.
// Skips points that are not finite, or not positive on a logarithmic axis.
std::string svg_of(const LineChart& chart, const ChartSize& size);

// Escapes text for an element or a double-quoted attribute.
std::string html_escaped(std::string_view text);

// Formats a number with digits in groups of three and `decimals` decimals: 8,583 or 28.7.
std::string grouped(double value, int decimals);

}  // namespace ibid

// LineChart: lines over one axis as an SVG element, to stand in a page. Names stand at the ends of the lines. Colours
// come from the page's style sheet (classes "axis", "grid" and s0, s1, ... for the series), so that they follow the
// reader's light or dark. Plain data and text; knows nothing of what is drawn.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ibid {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x >= 0 ascending; y > 0 where the chart is logarithmic
  std::string note = {};                          // below the name, at the end of the line
};

// In pixels of text of 13; the page scales the whole. A phone gets a drawing of its own: a wide one, made small, has
// letters that nobody can read.
struct ChartSize {
  double width, height;
  double names_width;  // at the right
};
inline constexpr ChartSize kWideChart = {760, 400, 160};
inline constexpr ChartSize kNarrowChart = {360, 330, 112};

struct LineChart {
  std::string title;  // for those who hear the page
  std::string x_name, y_name;
  bool log_y = false;
  std::vector<ChartSeries> series;  // in the order of their classes
};

// <svg> ... </svg>, well-formed. Each point is drawn with a shape of its series and names its numbers. Points that are
// not finite, or not positive where the axis is logarithmic, are left out.
std::string svg_of(const LineChart& chart, const ChartSize& size);

// Text as it may stand in an element or between double quotes of an attribute.
std::string html_escaped(std::string_view text);

// Digits in groups of three, as many behind the point as `decimals` says: 8,583 or 28.7.
std::string grouped(double value, int decimals);

}  // namespace ibid

#include "bench/lab/line_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ibid {

namespace {

constexpr double kLeft = 66, kTop = 34, kBottom = 48;
constexpr double kMarker = 4;
constexpr double kLineHeight = 16;
constexpr double kLabelHeight = 2 * kLineHeight + 4;  // height of a name and its note
constexpr double kSame = 1e-9;                        // tolerance for rounded logarithms
constexpr double kTickRoom = 62, kStepRoom = 50;      // approximate pixels between the numbers of an axis

template <typename... Values>
std::string text_of(const char* format, Values... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

// Formats with the fewest digits that are exact: 0.5, 20, 4,000.
std::string label_of(double value) { return value < 1 && value > 0 ? text_of("%g", value) : grouped(value, 0); }

// Returns the step, 1, 2 or 5 times a power of ten, that gives approximately `n` steps up to `most`.
double step_of(double most, double n) {
  const double raw = std::max(most, 1e-9) / n;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

class Axes {
 public:
  Axes(const LineChart& chart, const ChartSize& size)
      : log_y_(chart.log_y), right_(size.width - size.names_width), bottom_(size.height - kBottom) {
    double least = HUGE_VAL, most = 0;
    for (const ChartSeries& series : chart.series) {
      for (const auto& [x, y] : series.points) {
        if (!draws(x, y)) continue;
        most_x_ = std::max(most_x_, x);
        least = std::min(least, y);
        most = std::max(most, y);
      }
    }
    if (most <= 0) least = most = 1;
    x_step_ = step_of(most_x_, (right_ - kLeft) / kTickRoom);
    most_x_ = std::max(most_x_ * 1.02, x_step_);
    if (log_y_) {
      low_ = -std::log10(step_of(1 / least, 1));  // limits are 1, 2 or 5 times a power of ten, rounded outwards
      high_ = std::max(std::log10(step_of(most, 1)), low_ + 1);
    } else {
      y_step_ = step_of(most, (bottom_ - kTop) / kStepRoom);
      high_ = y_step_ * std::ceil(most / y_step_);
    }
  }

  bool draws(double x, double y) const { return std::isfinite(x) && std::isfinite(y) && x >= 0 && (!log_y_ || y > 0); }
  double x(double value) const { return kLeft + (right_ - kLeft) * value / most_x_; }
  double y(double value) const {
    const double place = ((log_y_ ? std::log10(value) : value) - low_) / (high_ - low_);
    return bottom_ - (bottom_ - kTop) * place;
  }
  double right() const { return right_; }
  double bottom() const { return bottom_; }

  std::string grid() const {
    std::string svg;
    const auto across = [&](double value) {
      svg += text_of("<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", kLeft, y(value),
                     right_, y(value));
      svg += text_of("<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", kLeft - 8,
                     y(value) + 4, label_of(value).c_str());
    };
    if (log_y_) {
      for (double power = std::floor(low_); power <= high_; ++power) {
        for (const double factor : {1.0, 2.0, 5.0}) {
          const double place = power + std::log10(factor);
          if (place > low_ - kSame && place < high_ + kSame) across(factor * std::pow(10, power));
        }
      }
    } else {
      for (double value = 0; value <= high_ * 1.0001; value += y_step_) across(value);
    }
    for (double value = 0; value <= most_x_; value += x_step_) {
      svg += text_of("<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x(value),
                     bottom_ + 18, label_of(value).c_str());
    }
    return svg;
  }

 private:
  const bool log_y_;
  const double right_, bottom_;
  double most_x_ = 0, x_step_ = 1, y_step_ = 1;
  double low_ = 0, high_ = 1;  // limits of y, or of its decimal logarithm
};

// Returns the marker of a series. Markers differ in shape, not only in colour: circle, square, diamond, triangle.
std::string marker(size_t series, double x, double y, const std::string& title) {
  const double r = kMarker;
  std::string shape;
  switch (series % 4) {
    case 0: shape = text_of("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">", x, y, r); break;
    case 1:
      shape = text_of("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">", x - r, y - r, 2 * r, 2 * r);
      break;
    case 2:
      shape = text_of("<path d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\">", x, y - 1.4 * r, 1.4 * r, 1.4 * r,
                      -1.4 * r, 1.4 * r, -1.4 * r, -1.4 * r);
      break;
    default:
      shape = text_of("<path d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fz\">", x, y - 1.2 * r, 1.2 * r, 2.2 * r, -2.4 * r, 0.0);
  }
  static constexpr const char* kEnds[] = {"</circle>", "</rect>", "</path>", "</path>"};
  return shape + (title.empty() ? "" : "<title>" + title + "</title>") + kEnds[series % 4] + "\n";
}

std::string series_svg(const ChartSeries& series, const Axes& axes, size_t i) {
  const std::string name = html_escaped(series.name);
  std::string path, markers;
  for (const auto& [x, y] : series.points) {
    if (!axes.draws(x, y)) continue;
    path += text_of("%s%.1f %.1f", path.empty() ? "M" : "L", axes.x(x), axes.y(y));
    markers += marker(i, axes.x(x), axes.y(y), name + text_of(": %g, %g", x, y));
  }
  std::string svg = "<g class=\"s" + std::to_string(i) + "\">\n";
  if (!path.empty()) svg += "<path class=\"line\" d=\"" + path + "\"/>\n";
  return svg + markers + "</g>\n";
}

// Label of a series at the end of its line. Labels that would overlap are moved apart.
struct EndLabel {
  size_t series = 0;
  double y = 0;  // middle of the label
};

std::vector<EndLabel> labels_of(const LineChart& chart, const Axes& axes) {
  std::vector<EndLabel> labels;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const auto& points = chart.series[i].points;
    const auto last = std::find_if(points.rbegin(), points.rend(),
                                   [&](const auto& point) { return axes.draws(point.first, point.second); });
    if (last != points.rend()) labels.push_back({i, axes.y(last->second)});
  }
  std::stable_sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) { return a.y < b.y; });
  for (size_t i = 1; i < labels.size(); ++i) labels[i].y = std::max(labels[i].y, labels[i - 1].y + kLabelHeight);
  double lowest = axes.bottom() - kLabelHeight / 2;  // moves labels up from the bottom until all are inside the drawing
  for (size_t i = labels.size(); i-- > 0; lowest -= kLabelHeight) labels[i].y = std::min(labels[i].y, lowest);
  return labels;
}

std::string label_svg(const LineChart& chart, const Axes& axes, const EndLabel& label) {
  const ChartSeries& series = chart.series[label.series];
  const double x = axes.right() + 10;
  return text_of("<g class=\"s%zu\"><text class=\"name\" x=\"%.1f\" y=\"%.1f\">", label.series, x, label.y - 2) +
         html_escaped(series.name) + "</text></g>\n" +
         text_of("<text class=\"axis\" x=\"%.1f\" y=\"%.1f\">", x, label.y - 2 + kLineHeight) +
         html_escaped(series.note) + "</text>\n";
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default: escaped += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return escaped;
}

std::string grouped(double value, int decimals) {
  std::string digits = text_of("%.*f", decimals, value);
  const size_t point = std::min(digits.find('.'), digits.size());
  const size_t first = digits.starts_with('-') ? 1 : 0;
  for (size_t at = point; at > first + 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string svg_of(const LineChart& chart, const ChartSize& size) {
  const Axes axes(chart, size);
  std::string svg = text_of("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n",
                            size.width, size.height);
  svg += "<title>" + html_escaped(chart.title) + "</title>\n" + axes.grid();
  svg += text_of("<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", (kLeft + axes.right()) / 2,
                 size.height - 8) +
         html_escaped(chart.x_name) + "</text>\n";
  svg += text_of("<text class=\"axis\" x=\"0\" y=\"%.1f\">", kTop - 20) + html_escaped(chart.y_name) + "</text>\n";
  for (size_t i = 0; i < chart.series.size(); ++i) svg += series_svg(chart.series[i], axes, i);
  for (const EndLabel& label : labels_of(chart, axes)) svg += label_svg(chart, axes, label);
  return svg + "</svg>\n";
}

}  // namespace ibid

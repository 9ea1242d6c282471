#include "apps/bench/line_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ibid {

namespace {

constexpr double kWidth = 760, kHeight = 400;
constexpr double kLeft = 70, kRight = 20, kTop = 44, kBottom = 52;
constexpr double kMarker = 4;
constexpr double kLegendWidth = 220;

template <typename... Values>
std::string text_of(const char* format, Values... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

// As few digits as say it: 0.5, 20, 4,000.
std::string label_of(double value) {
  if (value < 1 && value > 0) return text_of("%g", value);
  std::string digits = text_of("%.0f", value);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

// 1, 2 or 5 times a power of ten that gives about `n` steps up to `most`.
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
  explicit Axes(const LineChart& chart) : log_y_(chart.log_y) {
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
    x_step_ = step_of(most_x_, 8);
    most_x_ = std::max(most_x_ * 1.02, x_step_);
    if (log_y_) {
      low_ = std::floor(std::log10(least));
      high_ = std::max(std::ceil(std::log10(most)), low_ + 1);
    } else {
      y_step_ = step_of(most, 6);
      high_ = y_step_ * std::ceil(most / y_step_);
    }
  }

  bool draws(double x, double y) const { return std::isfinite(x) && std::isfinite(y) && x >= 0 && (!log_y_ || y > 0); }
  double x(double value) const { return kLeft + (kWidth - kLeft - kRight) * value / most_x_; }
  double y(double value) const {
    const double place = ((log_y_ ? std::log10(value) : value) - low_) / (high_ - low_);
    return kHeight - kBottom - (kHeight - kTop - kBottom) * place;
  }

  std::string grid() const {
    std::string svg;
    const auto across = [&](double value, bool labelled) {
      svg += text_of("<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", kLeft, y(value),
                     kWidth - kRight, y(value));
      if (!labelled) return;
      svg += text_of("<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", kLeft - 8,
                     y(value) + 4, label_of(value).c_str());
    };
    if (log_y_) {
      for (double power = low_; power <= high_; ++power) {
        for (const double factor : {1.0, 2.0, 5.0}) {
          if (power < high_ || factor == 1) across(factor * std::pow(10, power), true);
        }
      }
    } else {
      for (double value = 0; value <= high_ * 1.0001; value += y_step_) across(value, true);
    }
    for (double value = 0; value <= most_x_; value += x_step_) {
      svg += text_of("<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x(value),
                     kHeight - kBottom + 18, label_of(value).c_str());
    }
    return svg;
  }

 private:
  const bool log_y_;
  double most_x_ = 0, x_step_ = 1, y_step_ = 1;
  double low_ = 0, high_ = 1;  // of y, or of its decimal logarithm
};

// Shapes differ as well as colours: circle, square, diamond, triangle.
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

std::string series_svg(const LineChart& chart, const Axes& axes, size_t i) {
  const ChartSeries& series = chart.series[i];
  const std::string name = html_escaped(series.name);
  std::string path, markers;
  for (const auto& [x, y] : series.points) {
    if (!axes.draws(x, y)) continue;
    path += text_of("%s%.1f %.1f", path.empty() ? "M" : "L", axes.x(x), axes.y(y));
    markers += marker(i, axes.x(x), axes.y(y), name + text_of(": %g, %g", x, y));
  }
  std::string svg = "<g class=\"s" + std::to_string(i) + "\">\n";
  if (!path.empty()) svg += "<path class=\"line\" d=\"" + path + "\"/>\n";
  const double x = kLeft + kLegendWidth * static_cast<double>(i);
  svg += markers + marker(i, x + 8, kTop - 24, "");
  svg += text_of("<text x=\"%.1f\" y=\"%.1f\">", x + 18, kTop - 20) + name + "</text>\n";
  return svg + "</g>\n";
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

std::string svg_of(const LineChart& chart) {
  const Axes axes(chart);
  std::string svg = text_of("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n",
                            kWidth, kHeight);
  svg += "<title>" + html_escaped(chart.title) + "</title>\n" + axes.grid();
  svg += text_of("<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", (kLeft + kWidth - kRight) / 2,
                 kHeight - 12) +
         html_escaped(chart.x_name) + "</text>\n";
  svg += text_of("<text class=\"axis\" transform=\"translate(16 %.1f) rotate(-90)\" text-anchor=\"middle\">",
                 (kTop + kHeight - kBottom) / 2) +
         html_escaped(chart.y_name) + "</text>\n";
  for (size_t i = 0; i < chart.series.size(); ++i) svg += series_svg(chart, axes, i);
  return svg + "</svg>\n";
}

}  // namespace ibid

// The HTML page of a turn curve: its claim, its completeness, no overlapping labels, no external resources.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "bench/lab/line_chart.h"
#include "bench/lab/turn_curve.h"
#include "tests/apps/curve_points.h"

namespace ibid {
namespace {

using testing::HasSubstr;
using testing::Not;

// True if all elements are closed in order, attributes are in double quotes, and `<` and `&` do not occur otherwise.
bool is_well_formed(std::string_view text) {
  std::vector<std::string> open;
  while (!text.empty()) {
    const size_t at = text.find_first_of("<&");
    if (at == std::string_view::npos) break;
    text.remove_prefix(at);
    if (text[0] == '&') {
      const size_t end = text.find(';');
      if (end == std::string_view::npos || end > 6) return false;
      text.remove_prefix(end);
      continue;
    }
    const size_t end = text.find('>');
    if (end == std::string_view::npos) return false;
    std::string_view tag = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    const bool closes = tag.starts_with('/'), empty = tag.ends_with('/');
    if (closes) {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
      continue;
    }
    const std::string name(tag.substr(0, tag.find_first_of(" /")));
    if (name.empty() || tag.find('<') != std::string_view::npos) return false;
    if (std::count(tag.begin(), tag.end(), '"') != 2 * std::count(tag.begin(), tag.end(), '=')) {
      if (tag.find("content=") == std::string_view::npos) return false;  // its value may contain `=`
    }
    if (!empty) open.push_back(name);
  }
  return open.empty();
}

TEST(WellFormed, DetectsMalformedMarkup) {
  EXPECT_TRUE(is_well_formed("<a b=\"c\"><d/>x &amp; y</a>"));
  for (const char* text : {"<a>", "<a></b>", "</a>", "<a b=c></a>", "<a>x & y</a>", "<a", "<a>1 < 2</a>"}) {
    EXPECT_FALSE(is_well_formed(text)) << text;
  }
}

TEST(TurnCurvePage, IsWellFormedAndSelfContained) {
  const std::string page = turn_curve_page(hostile_setup(), three_points(), 5);
  const std::string doctype = "<!DOCTYPE html>\n";
  ASSERT_TRUE(page.starts_with(doctype));
  EXPECT_TRUE(is_well_formed(page.substr(doctype.size())));
  for (const char* text : {"<script", "src=", "href=", "url(", "@import"}) EXPECT_THAT(page, Not(HasSubstr(text)));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
}

TEST(TurnCurvePage, BeginsWithTheGainOfReuse) {
  std::vector<TurnCurvePoint> points = {point_at(8000, 14.125, 13), point_at(1000, 33.75, 32)};  // in any order
  const std::string claim = "At 8,000 tokens of history a turn is 71 times as fast as reading the prompt again";
  const std::string page = turn_curve_page({}, points, 5);
  EXPECT_THAT(page, HasSubstr("<title>" + claim + "</title>"));
  EXPECT_THAT(page, HasSubstr("<body>\n<h1>" + claim + "</h1>"));
  points[0].warm_ms.median = 500;
  EXPECT_THAT(turn_curve_page({}, points, 5), HasSubstr("a turn is 2.0 times as fast"));
}

TEST(TurnCurvePage, DescribesTheMeasurementBeforeTheCharts) {
  BenchSetup setup = hostile_setup();
  setup.others_percent = 12.34;
  const std::string page = turn_curve_page(setup, three_points(), 5);
  const std::string top = page.substr(0, page.find("<svg"));
  for (const char* text : {"a&lt;b&gt;", "A &quot;fast&quot; CPU, &lt;2&gt; CPUs", "2 threads", "f16 keys and values",
                           "2026-01-31", "commit abc&lt;/script&gt;", "medians of 5 rounds",
                           "other processes had 12.3 % of the CPUs", "Same text, same bits."}) {
    EXPECT_THAT(top, HasSubstr(text));
  }
  EXPECT_THAT(turn_curve_page({}, three_points(), 5), HasSubstr("commit not given"));
}

TEST(TurnCurvePage, HasEveryPointInChartsAndTable) {
  const std::string page = turn_curve_page(hostile_setup(), three_points(), 5);
  for (const char* text :
       {"reuse: 0, 12.25<", "reuse: 1000, 33.75<", "reuse: 7777, 99.5<", "cold prefill: 7777, 1001.5<",
        "from disk: 1000, 2001.5<", "bare pass: 7777, 98<", "<td>7,777</td><td>61</td>", "<td>7,839</td>",
        "33.8 <small>(33.6\xe2\x80\x93"
        "34.0)</small>",
        "2,002 <small>(2,000\xe2\x80\x93"
        "2,002)</small>"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  EXPECT_THAT(page,
              HasSubstr("th, td { text-align: right; padding: 0.25rem 0.6rem; border-bottom: 1px solid var(--rule); "
                        "white-space: nowrap; }"));
}

TEST(TurnCurvePage, ShowsALinearAxisFirstAndRatiosAtTheLines) {
  const std::string page = turn_curve_page({}, three_points(), 5);
  const size_t linear = page.find("<div class=\"linear\">"), log = page.find("<div class=\"log\">");
  ASSERT_NE(linear, std::string::npos);
  ASSERT_NE(log, std::string::npos);
  EXPECT_LT(linear, log);
  EXPECT_THAT(page, HasSubstr("<input type=\"checkbox\" id=\"scale\"/>"));  // not checked
  EXPECT_THAT(page, HasSubstr(".log, #scale:checked ~ .linear { display: none; }"));
  const std::string first = page.substr(linear, log - linear);
  EXPECT_THAT(first, HasSubstr(">0</text>"));  // a logarithmic axis has no zero
  for (const char* text : {">cold prefill</text>", ">1.00 s \xc2\xb7 10\xc3\x97</text>", ">from disk</text>",
                           ">2.00 s \xc2\xb7 20\xc3\x97</text>", ">reuse</text>", ">99.5 ms</text>"}) {
    EXPECT_THAT(first, HasSubstr(text));
  }
}

TEST(TurnCurvePage, ExplainsDifferingSlopes) {
  const std::string page = turn_curve_page({}, three_points(), 5);
  EXPECT_THAT(page, HasSubstr("median of the slopes between all pairs of histories"));
  EXPECT_THAT(page, HasSubstr("is not the difference of these two medians"));
  EXPECT_THAT(page, HasSubstr("9.70 ms longer"));  // (99.5 - 33.75) / 6.777
  EXPECT_THAT(page, Not(HasSubstr("\xc2\xb5s")));
}

TEST(TurnCurvePage, EscapesNames) {
  const std::string page = turn_curve_page(hostile_setup(), std::vector<TurnCurvePoint>{point_at(10, 1, 1)}, 1);
  for (const char* text : {"a<b>", "<2>", "</script>", "&\"c"}) EXPECT_THAT(page, Not(HasSubstr(text)));
  for (const char* text : {"a&lt;b&gt;&amp;&quot;c&#39;.gguf", "A &quot;fast&quot; CPU, &lt;2&gt; CPUs", "2026-01-31",
                           "abc&lt;/script&gt;", "2 threads \xc2\xb7 f16 keys and values, exact, amx"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST(TurnCurvePage, ReportsDifferingAnswers) {
  std::vector<TurnCurvePoint> points = {point_at(10, 1, 1), point_at(20, 2, 2)};
  EXPECT_THAT(turn_curve_page({}, points, 1), HasSubstr("Same text, same bits."));
  points[1].same_bits = false;
  EXPECT_THAT(turn_curve_page({}, points, 1), HasSubstr("Same text, other bits."));
  points[0].same_text = false;
  EXPECT_THAT(turn_curve_page({}, points, 1), HasSubstr("Other text, other bits."));
}

TEST(TurnCurvePage, IsWellFormedWithoutPoints) {
  EXPECT_TRUE(is_well_formed(turn_curve_page({}, {}, 5).substr(16)));
  EXPECT_TRUE(is_well_formed(turn_curve_page({}, std::vector<TurnCurvePoint>{TurnCurvePoint{}}, 5).substr(16)));
}

TEST(LineChart, OmitsPointsThatCannotBeDrawn) {
  LineChart chart{"t", "x", "y", true, {{"a", {{0, 0}, {1, 10}, {2, std::nan("")}, {3, 20}}, ""}}};
  const std::string svg = svg_of(chart, kWideChart);
  EXPECT_THAT(svg, HasSubstr("a: 1, 10"));
  EXPECT_THAT(svg, HasSubstr("a: 3, 20"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(svg, Not(HasSubstr("a: 0, 0")));
}

TEST(LineChart, LogarithmicAxisEndsAtTheData) {
  const LineChart chart{"t", "x", "y", true, {{"a", {{0, 160}, {1, 14892}}, ""}}};
  const std::string svg = svg_of(chart, kWideChart);
  for (const char* label : {">100<", ">200<", ">500<", ">1,000<", ">2,000<", ">5,000<", ">10,000<", ">20,000<"}) {
    EXPECT_THAT(svg, HasSubstr(label));
  }
  for (const char* label : {">50<", ">50,000<", ">100,000<"}) EXPECT_THAT(svg, Not(HasSubstr(label)));
}

// Returns the heights of the names at the line ends.
std::vector<double> name_heights(const std::string& svg) {
  std::vector<double> heights;
  const std::regex name("class=\"name\" x=\"[0-9.]+\" y=\"([0-9.]+)\"");
  for (std::sregex_iterator it(svg.begin(), svg.end(), name), end; it != end; ++it)
    heights.push_back(std::stod((*it)[1]));
  std::sort(heights.begin(), heights.end());
  return heights;
}

TEST(LineChart, NamesOfLinesWithOneEndDoNotOverlap) {
  for (const ChartSize& size : {kWideChart, kNarrowChart}) {
    for (const double end : {0.0, 50.0, 100.0}) {
      LineChart chart{"t", "x", "y", false, {{"top", {{0, 0}, {1, 100}}, ""}}};
      for (const char* name : {"a", "b", "c"}) chart.series.push_back({name, {{0, 0}, {1, end}}, "note"});
      const std::vector<double> heights = name_heights(svg_of(chart, size));
      ASSERT_EQ(heights.size(), 4u);
      for (size_t i = 1; i < heights.size(); ++i) EXPECT_GE(heights[i] - heights[i - 1], 32) << end;
      EXPECT_GE(heights.front(), 10);
      EXPECT_LE(heights.back(), size.height - 48) << "room for a note below";
    }
  }
}

// Text is 13 pixels high if the chart is as wide as its viewBox; on a page of 420 pixels the chart has 396.
TEST(LineChart, IsReadableOnAPhone) {
  const std::string page = turn_curve_page({}, three_points(), 5);
  EXPECT_THAT(page, HasSubstr("svg text { font-size: 13px;"));
  EXPECT_THAT(page, HasSubstr("@media (max-width: 720px) { .wide { display: none; } .narrow { display: block;"));
  EXPECT_GE(13 * 396 / kNarrowChart.width, 11);
  EXPECT_GE(13 * 696 / kWideChart.width, 11) << "in the narrowest window that shows it";
}

TEST(Grouped, InsertsThousandsSeparators) {
  EXPECT_EQ(grouped(0, 0), "0");
  EXPECT_EQ(grouped(999.6, 0), "1,000");
  EXPECT_EQ(grouped(28699.4, 1), "28,699.4");
  EXPECT_EQ(grouped(-1234567, 0), "-1,234,567");
  EXPECT_EQ(grouped(-123, 2), "-123.00");
}

}  // namespace
}  // namespace ibid

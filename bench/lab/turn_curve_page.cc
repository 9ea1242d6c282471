// The HTML page of a TurnCurve (bench/lab/turn_curve.h).
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/lab/line_chart.h"
#include "bench/lab/turn_curve.h"

namespace ibid {

namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1d1d1f; --soft: #63636b; --rule: #dcdce2; --paper: #ffffff;
  --s0: #0b62c4; --s1: #b94a00; --s2: #00755e; --s3: #7a3fa0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececf1; --soft: #a8a8b3; --rule: #3a3a42; --paper: #17171a;
    --s0: #6db1ff; --s1: #ff9d57; --s2: #4fd0b0; --s3: #cf9df0; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 1.5rem auto; padding: 0 0.75rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 0.4rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 0.3rem; }
p { margin: 0.4rem 0; } .setup { color: var(--soft); }
svg { display: block; width: 100%; height: auto; }
svg text { font-size: 13px; fill: var(--ink); } svg text.axis { fill: var(--soft); }
.narrow { display: none; }
@media (max-width: 720px) { .wide { display: none; } .narrow { display: block; max-width: 30rem; } }
.log, #scale:checked ~ .linear { display: none; } #scale:checked ~ .log { display: block; }
.grid { stroke: var(--rule); stroke-width: 1; } .line { fill: none; stroke-width: 2; }
.s0 { stroke: var(--s0); fill: var(--s0); } .s1 { stroke: var(--s1); fill: var(--s1); }
.s2 { stroke: var(--s2); fill: var(--s2); } .s3 { stroke: var(--s3); fill: var(--s3); }
svg g text { stroke: none; } svg .line { fill: none; } svg text.name { fill: inherit; font-weight: 600; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 0.25rem 0.6rem; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { font-weight: 600; } td small { color: var(--soft); font-size: 0.8rem; }
dt { color: var(--soft); } dd { margin: 0 0 0.5rem 0; overflow-wrap: anywhere; }
.verdict { font-weight: 600; }
)";

std::string cell(const std::string& text) { return "<td>" + html_escaped(text) + "</td>"; }

// Formats with at least three significant digits: 9.87, 28.7, 148, 8,583.
std::string ms_digits(double ms) { return grouped(ms, ms < 10 ? 2 : ms < 100 ? 1 : 0); }

// As ms_digits(), with a unit: 28.7 ms, 8.58 s.
std::string duration(double ms) {
  if (ms < 1000) return ms_digits(ms) + " ms";
  return grouped(ms / 1000, ms < 10e3 ? 2 : ms < 100e3 ? 1 : 0) + " s";
}

std::string times(double ratio) { return grouped(ratio, ratio < 10 ? 1 : 0); }

double ratio_of(const Spread& more, const Spread& less) { return less.median > 0 ? more.median / less.median : 0; }

std::string spread_cell(const Spread& spread) {
  std::string html = "<td>" + ms_digits(spread.median);
  if (spread.q1 == spread.q3) return html + "</td>";
  return html + " <small>(" + ms_digits(spread.q1) + "\xe2\x80\x93" + ms_digits(spread.q3) + ")</small></td>";
}

ChartSeries series_of(const char* name, std::span<const TurnCurvePoint> points, Spread TurnCurvePoint::*which,
                      bool with_ratio) {
  ChartSeries series{name, {}};
  for (const TurnCurvePoint& p : points) series.points.emplace_back(static_cast<double>(p.history), (p.*which).median);
  if (points.empty()) return series;
  const TurnCurvePoint& last = points.back();
  series.note = duration((last.*which).median);
  if (with_ratio) series.note += " \xc2\xb7 " + times(ratio_of(last.*which, last.warm_ms)) + "\xc3\x97";
  return series;
}

// Returns the conclusion of the page, in one line.
std::string claim_of(std::span<const TurnCurvePoint> points) {
  if (points.empty()) return "Nothing was measured";
  const TurnCurvePoint& last = points.back();
  return "At " + grouped(static_cast<double>(last.history), 0) + " tokens of history a turn is " +
         times(ratio_of(last.cold_ms, last.warm_ms)) + " times as fast as reading the prompt again";
}

std::string setup_of(const BenchSetup& setup, size_t rounds) {
  std::string text = setup.model + " \xc2\xb7 " + setup.machine + " \xc2\xb7 " + std::to_string(setup.n_threads) +
                     " threads \xc2\xb7 " + setup.kv + " keys and values, " + setup.numerics + ", " + setup.isa +
                     " \xc2\xb7 " + setup.date + " \xc2\xb7 ";
  text += setup.commit.empty() ? "commit not given" : "commit " + setup.commit;
  text += " \xc2\xb7 medians of " + std::to_string(rounds) + (rounds == 1 ? " round" : " rounds");
  text += " \xc2\xb7 other processes had " + grouped(setup.others_percent, 1) + " % of the CPUs";
  return "<p class=\"setup\">" + html_escaped(text) + "</p>\n";
}

std::string verdict_of(std::span<const TurnCurvePoint> points) {
  const bool text = all_same_text(points), bits = all_same_bits(points);
  return std::string("<p><span class=\"verdict\">") + (text ? "Same text" : "Other text") + ", " +
         (bits ? "same bits" : "other bits") + ".</span> The answers of all three are " +
         (text ? "the same tokens" : "NOT the same tokens") + ", and the logits after them are " +
         (bits ? "the same, bit for bit" : "NOT the same bits") + ", at every history and in every round.</p>\n";
}

std::string drawing(LineChart chart, const char* scale_class) {
  std::string html = std::string("<div class=\"") + scale_class + "\">\n";
  html += "<div class=\"wide\">\n" + svg_of(chart, kWideChart) + "</div>\n";
  html += "<div class=\"narrow\">\n" + svg_of(chart, kNarrowChart) + "</div>\n";
  return html + "</div>\n";
}

constexpr const char* kAxis = "tokens of history";

// The switch between the two charts is a checkbox with CSS, without a script.
std::string three_ways(std::span<const TurnCurvePoint> points) {
  LineChart chart{"Time to the first token against the history", kAxis, "ms to the first token", false, {}};
  chart.series = {series_of("reuse", points, &TurnCurvePoint::warm_ms, false),
                  series_of("cold prefill", points, &TurnCurvePoint::cold_ms, true),
                  series_of("from disk", points, &TurnCurvePoint::resumed_ms, true)};
  std::string html = "<input type=\"checkbox\" id=\"scale\"/> <label for=\"scale\">logarithmic axis</label>\n";
  html += drawing(chart, "linear");
  chart.log_y = true;
  return html + drawing(chart, "log");
}

std::string growth_of(std::span<const TurnCurvePoint> points) {
  LineChart chart{"The turn and one bare pass against the history", kAxis, "ms", false, {}};
  chart.series = {series_of("turn (reuse)", points, &TurnCurvePoint::warm_ms, false),
                  series_of("bare pass", points, &TurnCurvePoint::pass_ms, false)};
  std::string html =
      "<h2>What grows is attention</h2>\n"
      "<p>A bare pass is the model alone over as many new tokens at the same place. Without a "
      "history the turn also reads the beginning that the template writes.</p>\n" +
      drawing(chart, "growth");
  const TurnCurveFit fit = fit_of(points);
  if (!fit.known) return html;
  const auto ms = [](double us) { return grouped(us / 1e3, std::fabs(us) < 10e3 ? 2 : 1) + " ms"; };
  return html + "<p>With 1,000 tokens more of history the turn takes " + ms(fit.turn_us_per_1000) +
         " longer and the bare pass " + ms(fit.pass_us_per_1000) +
         ": each the median of the slopes between all pairs of histories. What the turn adds of its own is not the "
         "difference of these two medians. It is measured in every round, turn minus pass right beside each other, and "
         "changes by " +
         ms(fit.besides_us_per_1000) + " with 1,000 tokens: " + grouped(fit.besides_percent, 2) +
         " % of the turn at the longest history.</p>\n";
}

std::string table_of(std::span<const TurnCurvePoint> points, size_t rounds) {
  std::string html = "<h2>The numbers</h2>\n<p>Milliseconds to the first token: medians of " + std::to_string(rounds) +
                     " interleaved rounds, followed by the quartiles.</p>\n"
                     "<div class=\"scroll\"><table>\n<thead><tr>";
  for (const char* name : {"history", "read now", "reuse", "cold prefill", "ratio", "read now", "from disk", "ratio",
                           "bare pass", "same text", "same bits"}) {
    html += std::string("<th scope=\"col\">") + name + "</th>";
  }
  html += "</tr></thead>\n<tbody>\n";
  const auto count = [](size_t n) { return cell(grouped(static_cast<double>(n), 0)); };
  for (const TurnCurvePoint& p : points) {
    const auto to_reuse = [&](const Spread& other) { return cell(times(ratio_of(other, p.warm_ms)) + "\xc3\x97"); };
    html += "<tr>" + count(p.history) + count(p.n_read_warm) + spread_cell(p.warm_ms) + spread_cell(p.cold_ms) +
            to_reuse(p.cold_ms) + count(p.n_read_cold) + spread_cell(p.resumed_ms) + to_reuse(p.resumed_ms) +
            spread_cell(p.pass_ms) + cell(p.same_text ? "yes" : "no") + cell(p.same_bits ? "yes" : "no") + "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

std::string method_of(const BenchSetup& setup) {
  return "<h2>How it was measured</h2>\n<dl>\n"
         "<dt>reuse</dt><dd>The session holds what was said.</dd>\n"
         "<dt>cold prefill</dt><dd>The saved conversation, with nothing of it cached.</dd>\n"
         "<dt>from disk</dt><dd>The saved conversation in a new engine with a cache directory, whose files the system "
         "was asked to forget.</dd>\n"
         "<dt>command</dt><dd>" +
         html_escaped(setup.command) +
         "</dd>\n</dl>\n"
         "<p>The last two ways count from opening the conversation; none counts the loading of the model.</p>\n";
}

}  // namespace

std::string turn_curve_page(const BenchSetup& setup, std::span<const TurnCurvePoint> points, size_t rounds) {
  std::vector<TurnCurvePoint> ascending(points.begin(), points.end());
  std::sort(ascending.begin(), ascending.end(), [](const auto& a, const auto& b) { return a.history < b.history; });
  const std::string claim = claim_of(ascending);
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>" +
      claim + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" + claim + "</h1>\n";
  html += setup_of(setup, rounds) + verdict_of(ascending) + three_ways(ascending) + growth_of(ascending);
  html += table_of(ascending, rounds) + method_of(setup);
  return html + "</body>\n</html>\n";
}

}  // namespace ibid

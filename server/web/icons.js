// The icons, as lines on a grid of 20 by 20, in the colour of the surrounding text.

export const ICONS = {
  menu: "M3 6h14M3 10h14M3 14h14",
  plus: "M10 4v12M4 10h12",
  send: "M10 16V4M5 9l5-5 5 5",
  stop: "M6 6h8v8H6z",
  clip: "M14.5 9.5l-5 5a3 3 0 0 1-4.2-4.2l6-6a2 2 0 0 1 2.9 2.9l-6 6a1 1 0 0 1-1.5-1.5l5-5",
  copy: "M7 7V4h9v9h-3M4 7h9v9H4z",
  edit: "M4 16l.7-3.2L13 4.5l2.5 2.5-8.300 8.300zM11.5 6l2.5 2.5",
  again: "M15.5 10a5.5 5.5 0 1 1-1.800-4.100M14 3v3.200h-3.200",
  continue: "M3 10h9M8.5 6.5L12 10l-3.5 3.5M16 5v10",
  left: "M12 5l-5 5 5 5",
  right: "M8 5l5 5-5 5",
  down: "M10 4v12M5 11l5 5 5-5",
  tree: "M6 5.5v9M6 8c0 3 8 1 8 4.5M6 5.5a1.5 1.5 0 1 1 0-3 1.5 1.5 0 0 1 0 3zM6 17.5a1.5 1.5 0 1 1 0-3 " +
    "1.5 1.5 0 0 1 0 3zM14 15.5a1.5 1.5 0 1 1 0-3 1.5 1.5 0 0 1 0 3z",
  bin: "M4 6h12M8 6V4h4v2M5.5 6l.8 10h7.400l.8-10",
  out: "M10 12V3M6.5 6.5L10 3l3.5 3.5M4 11v5h12v-5",
  in: "M10 3v9M6.5 8.5L10 12l3.5-3.5M4 11v5h12v-5",
  sliders: "M3 6h8M15 6h2M13 4v4M3 14h2M9 14h8M7 12v4",
  theme: "M10 3.5a6.5 6.5 0 1 0 0 13zM10 3.5a6.5 6.5 0 0 1 0 13",
  pulse: "M2 10h4l2-5 4 10 2-5h4",
  keys: "M2.5 6h15v8h-15zM6 11.5h8M5.5 8.700h.01M8.5 8.700h.01M11.5 8.700h.01M14.5 8.700h.01",
  close: "M5 5l10 10M15 5L5 15",
};

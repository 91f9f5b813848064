#!/usr/bin/env python3
"""Opens pages in Chromium, reads them, and uses them by mouse and keyboard.

The arguments are the path of noisemark_page_probe and that of reports/example, then unittest's own. Exit code 77 where no
Chromium is installed, 1 if NOISEMARK_REQUIRE has browser. NOISEMARK_PICTURES=DIR keeps a picture of each page there, to be looked at."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import browser

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import peers_required  # noqa: E402

PROBE, EXAMPLE = (pathlib.Path(word) for word in sys.argv[1:3])
READY = "document.documentElement.dataset.ready === 'yes'"
TAB, ENTER, RIGHT = ("Tab", 9), ("Enter", 13, "\r"), ("ArrowRight", 39)


def rate():
    """The example's images/s, as pages print them."""
    metrics = json.loads((EXAMPLE / "result.json").read_text())["metrics"]
    return next(f"{metric['value']:.2f}" for metric in metrics if metric["name"] == "images_per_s")


def setUpModule():
    global pages, opened
    folder = tempfile.TemporaryDirectory(prefix="noisemark-pages-")
    unittest.addModuleCleanup(folder.cleanup)
    pages = pathlib.Path(folder.name)
    subprocess.run([PROBE, EXAMPLE, pages], check=True)
    opened = browser.Browser()
    unittest.addModuleCleanup(opened.close)


class Page(unittest.TestCase):
    file = "run/report.html"
    scripts = True
    first_plot = 0  # index of the first plot that the tests of the class look at

    def setUp(self):
        self.browser = opened
        self.browser.reset(scripts=self.scripts)
        self.browser.open(pages / self.file)
        if self.scripts:
            self.browser.wait_for(READY)
            self.browser.value("document.querySelectorAll('main details').forEach((fold) => { fold.open = true; })")

    def tearDown(self):
        """Whatever was done with the page, it complained of nothing and asked nobody for anything."""
        if folder := os.environ.get("NOISEMARK_PICTURES"):
            self.browser.picture(pathlib.Path(folder) / f"{self.id().split('.', 1)[1]}.png", whole=True)
        self.assertEqual(self.browser.complaints, [])
        foreign = [url for url in self.browser.requests if url.split(":")[0] not in ("file", "data", "blob")]
        self.assertEqual(foreign, [])

    def texts(self, selector: str) -> list[str]:
        return self.browser.value(f"[...document.querySelectorAll({selector!r})].map((e) => e.textContent)")

    def wait_for_plot(self, number: int):
        """Brings the plot before the eye; it is drawn then."""
        number += self.first_plot
        self.browser.value(f"document.querySelectorAll('img.plot')[{number}].scrollIntoView()")
        self.browser.wait_for(f"document.querySelectorAll('img.plot')[{number}].dataset.drawn === 'yes'")

    def plot(self, number: int) -> str:
        return f"document.querySelectorAll('img.plot')[{number + self.first_plot}].nextElementSibling"


class Report(Page):
    def test_the_verdict_comes_first(self):
        self.assertEqual(self.browser.value("document.querySelector('main').innerText.split('\\n')[0]"), "PASS: gmm16-ho@cpu")
        self.assertEqual(self.browser.value("document.title"), "PASS: gmm16-ho@cpu")

    def test_the_first_screen_has_what_a_person_must_know_and_the_rest_is_folded(self):
        self.browser.open(pages / self.file)
        self.browser.wait_for(READY)
        header = self.browser.value("document.querySelector('main header').innerText")
        for words in (rate(), "Speed:", "Memory:", "Quality:", "What limits it:", "Since an earlier run:"):
            self.assertIn(words, header)
        seen = "document.querySelector('main header').getBoundingClientRect().bottom <= innerHeight"
        self.assertTrue(self.browser.value(seen))
        self.assertEqual(self.browser.value("document.querySelectorAll('main details[open]').length"), 0)
        self.browser.click("main details summary")
        self.assertEqual(self.browser.value("document.querySelectorAll('main details[open]').length"), 1)

    def test_a_link_opens_the_part_that_it_leads_to(self):
        self.browser.open(pages / self.file)
        self.browser.wait_for(READY)
        self.browser.click("nav a[href='#seeds']")
        self.browser.wait_for("document.getElementById('seeds').closest('details').open")

    def test_a_table_is_sorted_by_click_and_by_key(self):
        table = "main h2#operators ~ .scroll table"
        column = f"{table} tbody tr td:nth-child(2)"
        before = self.texts(column)[:15]
        self.browser.click(f"{table} th:nth-child(2) button")
        self.assertEqual(self.browser.value(f"document.querySelector('{table} th:nth-child(2)').ariaSort"), "ascending")
        sorted_ = [int(text) for text in self.texts(column)[:15]]
        self.assertEqual(sorted_, sorted(int(text) for text in before))
        self.browser.key(*ENTER)
        self.assertEqual([int(text) for text in self.texts(column)[:15]], sorted(sorted_, reverse=True))
        self.browser.key(*ENTER)
        self.assertEqual(self.texts(column)[:15], before)

    def test_numbers_are_sorted_by_their_size_and_not_by_their_digits(self):
        order = self.browser.value(
            "['9.5 MiB', '10 KiB', '1,294', '', 'word', '163.36 to 167.59', '2.5 ms', '-3'].sort(compareCells)")
        self.assertEqual(order, ["-3", "2.5 ms", "163.36 to 167.59", "1,294", "10 KiB", "9.5 MiB", "word", ""])

    def test_a_table_is_filtered_by_typing(self):
        self.browser.value("document.querySelector('main h2#operators ~ .tools input').focus()")
        self.browser.call("Input.insertText", text="silu")
        rows = "[...document.querySelector('main h2#operators ~ .scroll table').querySelectorAll('tbody tr')]"
        matching = self.browser.value(f"{rows}.filter(row => row.textContent.includes('silu')).length")
        self.assertGreaterEqual(matching, 1)
        self.assertEqual(self.browser.value(f"{rows}.filter(row => !row.hidden).length"), matching)
        self.assertEqual(self.texts("main h2#operators ~ .tools [role=status]")[0], f"{matching} of 15 rows")

    def memory_rows(self) -> list[list[str]]:
        lines = (EXAMPLE / "plots/memory.dat").read_text().splitlines()
        return [line.split() for line in lines if not line.startswith("#")]

    def test_the_pointer_tells_values(self):
        self.wait_for_plot(1)
        x, y = self.browser.value(f"(() => {{ const b = {self.plot(1)}.querySelector('.nsewdrag').getBoundingClientRect();"
                                  " return [b.x + b.width / 3, b.y + b.height / 2]; })()")
        self.browser.mouse("mouseMoved", x, y)
        self.browser.mouse("mouseMoved", x + 3, y)
        self.browser.wait_for(f"/activations \\d/.test({self.plot(1)}.parentElement.querySelector('.readout').textContent)")

    def test_the_keyboard_tells_values(self):
        self.wait_for_plot(1)
        self.browser.value(f"{self.plot(1)}.parentElement.querySelector('input[type=range]').focus()")
        self.browser.key(*RIGHT)
        text = self.browser.value(f"{self.plot(1)}.parentElement.querySelector('.readout').textContent")
        at, *owners = self.memory_rows()[1]
        self.assertRegex(text, rf"^At {re.escape(at[:4])}\d*: .*weights {re.escape(owners[0][:5])}")
        self.browser.key(*RIGHT)
        self.assertNotEqual(self.browser.value(f"{self.plot(1)}.parentElement.querySelector('.readout').textContent"), text)

    def test_the_values_are_those_that_the_picture_was_drawn_from(self):
        self.wait_for_plot(1)
        rows = self.memory_rows()
        drawn = self.browser.value(f"{self.plot(1)}.data.filter((t) => t.name === 'activations').map((t) => [t.x, t.y])[0]")
        self.assertEqual(drawn[0], [float(row[0]) for row in rows])
        self.assertEqual(drawn[1], [float(row[6]) for row in rows])

    def test_a_plot_zooms(self):
        self.wait_for_plot(0)
        whole = self.browser.value(f"{self.plot(0)}.layout.xaxis.range")
        box = self.browser.value(f"(() => {{ const b = {self.plot(0)}.querySelector('.nsewdrag').getBoundingClientRect();"
                                 " return [b.x, b.y, b.width, b.height]; })()")
        y = box[1] + box[3] / 2
        self.browser.mouse("mousePressed", box[0] + box[2] * 0.25, y, button="left", buttons=1, clickCount=1)
        self.browser.mouse("mouseMoved", box[0] + box[2] * 0.4, y, button="left", buttons=1)
        self.browser.mouse("mouseMoved", box[0] + box[2] * 0.5, y, button="left", buttons=1)
        self.browser.mouse("mouseReleased", box[0] + box[2] * 0.5, y, button="left", clickCount=1)
        self.browser.wait_for(f"{self.plot(0)}.layout.xaxis.range[1] < {whole[1]}")
        low, high = self.browser.value(f"{self.plot(0)}.layout.xaxis.range")
        self.assertAlmostEqual((high - low) / (whole[1] - whole[0]), 0.25, delta=0.02)

    def test_the_peak_of_memory_is_told_with_what_ran_then(self):
        self.wait_for_plot(1)
        peak = self.browser.value("(() => { const t = data.result.memory.timeline.find((p) => sum(p.by_category) === data.result.memory.peak_bytes);"
                                  " return instants('')(Number((1000 * t.time_s).toPrecision(6))); })()")
        self.assertEqual(peak, "the peak, in backward: aten::convolution_backward")

    def test_it_is_printed_whole(self):
        self.wait_for_plot(0)
        open_ = len(self.browser.printed())
        self.browser.value("document.querySelectorAll('main details').forEach((fold) => { fold.open = false; })")
        self.assertGreater(len(self.browser.printed()), 0.9 * open_)  # the page prints its folded parts too
        self.browser.call("Emulation.setEmulatedMedia", media="print")
        shown = "(s) => getComputedStyle(document.querySelector(s)).display !== 'none'"
        self.assertEqual(self.browser.value(f"['img.plot', 'div.plot', '.tools', 'nav', 'h1'].map({shown})"),
                         [True, False, False, False, True])
        self.assertGreater(len(self.browser.printed()), 50_000)


class WithoutScripts(Page):
    scripts = False

    def test_everything_is_there(self):
        words = self.browser.call("DOM.getDocument", depth=0)
        html = self.browser.call("DOM.getOuterHTML", nodeId=words["root"]["nodeId"])["outerHTML"]
        for line in ("PASS: gmm16-ho@cpu", f"<strong>{rate()}&nbsp;images/s</strong>", "data:image/svg+xml;base64,", "aten::silu_backward"):
            self.assertIn(line, html)
        self.assertEqual(html.count('class="plot"'), 3)
        self.assertNotIn('type="search"', html)


class Profile(Page):
    file = "profile/profile.html"

    def test_the_memory_of_a_step_tells_operator_layer_and_phase_at_each_instant(self):
        self.wait_for_plot(0)
        self.browser.value(f"{self.plot(0)}.parentElement.querySelector('.slider input').focus()")
        said = []
        for _ in range(2):
            self.browser.key(*RIGHT)
            said.append(self.browser.value(f"{self.plot(0)}.parentElement.querySelector('.readout').textContent"))
        self.assertEqual(said, [
            "At 1: activations 50; weights 100. aten::conv2d > aten::empty, layer mid.conv, forward",
            "At 2: activations 0; weights 100. MulBackward0 > aten::mul, layer up.0, backward"])


    def test_the_pointer_and_the_keyboard_tell_the_operators_of_the_roofline(self):
        self.wait_for_plot(1)
        readout = f"{self.plot(1)}.parentElement.querySelector('.readout').textContent"
        addition = "aten::add [9] <b>: 20.000 ms of a step, 50.0 % of its roof, bound by memory 1.25"
        x, y = self.browser.value(f"(() => {{ const b = {self.plot(1)}.querySelector('.scatterlayer .point').getBoundingClientRect();"
                                  " return [b.x + b.width / 2, b.y + b.height / 2]; })()")
        self.browser.mouse("mouseMoved", x + 3, y)
        self.browser.mouse("mouseMoved", x, y)
        self.browser.wait_for(f"/^At 300: aten::addmm .8, 8.: 60.000 ms .*bound by compute 50/.test({readout})")
        self.browser.wait_for(f"/aten::addmm/.test({self.plot(1)}.querySelector('.hoverlayer').textContent)")
        self.browser.value(f"(() => {{ const s = {self.plot(1)}.parentElement.querySelector('.slider input'); s.value = 1; s.focus();"
                           " s.dispatchEvent(new Event('input')); })()")
        self.assertEqual(self.browser.value(readout), f"At 0.25: {addition}")


class PlotsOfAllKinds(Page):
    file = "plots/plots.html"

    def test_every_plot_of_this_project_is_drawn_and_none_stays_a_picture(self):
        names = self.browser.value("[...document.querySelectorAll('img.plot')].map((i) => i.alt)")
        self.assertIn("step_time_of_many", names)
        self.assertIn("pareto", names)
        self.assertIn("history_1_images_per_s", names)
        for number, name in enumerate(names):
            with self.subTest(name):
                self.wait_for_plot(number)
                self.assertGreater(self.browser.value(f"{self.plot(number)}.querySelectorAll('.scatterlayer .trace').length"), 0)


    def test_a_logarithmic_axis_has_three_labels_or_more_also_where_it_is_zoomed(self):
        names = self.browser.value("[...document.querySelectorAll('img.plot')].map((i) => i.alt)")
        labels = {"xaxis": "g.xtick text", "yaxis": "g.ytick text"}
        found = 0
        for number, name in enumerate(names):
            self.wait_for_plot(number)
            for axis, texts in labels.items():
                if self.browser.value(f"{self.plot(number)}.layout.{axis}.type") != "log":
                    continue
                found += 1
                low, high = self.browser.value(f"{self.plot(number)}.layout.{axis}.range")
                for share in (1, 0.3, 0.05):
                    ends = [low, low + share * (high - low)]
                    self.browser.value(f"Plotly.relayout({self.plot(number)}, {{'{axis}.range': {ends}}}).then(() => 0)")
                    seen = f"[...{self.plot(number)}.querySelectorAll('{texts}')].map((t) => Math.log10(Number(t.textContent)))"
                    inside = f"every((p) => {ends[0] - 1e-6} <= p && p <= {ends[1] + 1e-6})"
                    with self.subTest(name, axis=axis, share=share):
                        self.browser.wait_for(f"((seen) => seen.length >= 3 && seen.length <= 27 && seen.{inside})({seen})")
        self.assertGreaterEqual(found, 2)


class ProfileInAReport(Profile):
    file, first_plot = "whole/report.html", 3


class Prediction(Page):
    file = "prediction/predict.html"

    def setUp(self):
        super().setUp()
        self.browser.wait_for("[...document.querySelectorAll('#batch-slider div.plot')].filter((g) => g.layout?.shapes?.length > 1).length === 2")

    def test_the_slider_moves_both_curves_and_tells_both_figures(self):
        graphs = "[...document.querySelectorAll('#batch-slider div.plot')]"
        places = f"{graphs}.map((g) => [g.layout.shapes[0].x0, g.layout.shapes[1].y0])"
        before = self.browser.value(places)
        self.assertEqual(len(before), 2)
        self.browser.value("document.getElementById('batch').focus()")
        self.browser.key(*RIGHT)
        after = self.browser.value(places)
        self.assertEqual([x for x, _ in after], [before[0][0] + 1] * 2)
        self.assertAlmostEqual(after[0][1] - before[0][1], 2.0, places=6)  # 2 ms and 4 MiB per image
        self.assertAlmostEqual(after[1][1] - before[1][1], 4.0, places=6)
        self.assertRegex(self.texts("#batch-slider .readout")[0], rf"^Batch {after[0][0]}none: .* ms .* images/s, peak .* MiB.*echo: ")

    def test_what_was_not_measured_is_drawn_and_called_so(self):
        dashed = self.browser.value("document.querySelector('#batch-slider div.plot').data.filter((t) => t.name === 'none, extrapolated')"
                                    ".map((t) => [t.line.dash, t.x[0], t.y.filter((y) => y !== null && !Number.isNaN(y)).length])[0]")
        self.assertEqual(dashed[0], "dash")
        self.browser.value("(() => { const s = document.getElementById('batch'); s.value = s.max; s.dispatchEvent(new Event('input')); })()")
        self.assertIn("extrapolated beyond what was measured", self.texts("#batch-slider .readout")[0])


class PredictionInAReport(Prediction):
    file = "whole/report.html"

    def test_the_curves_are_as_wide_as_the_page(self):
        widths = self.browser.value("[...document.querySelectorAll('#batch-slider div.plot')].flatMap((plot) => "
                                    "[plot.querySelector('.main-svg').getBoundingClientRect().width, plot.getBoundingClientRect().width])")
        self.assertEqual(widths[0], widths[1])
        self.assertNotEqual(widths[0], 700, "the width of a plot that was drawn folded")

    def test_a_link_to_it_opens_and_draws_it(self):
        self.browser.open(pages / self.file)
        self.browser.value("(() => { location.hash = '#part-predict'; location.reload(); })()")
        self.browser.wait_for("document.querySelectorAll('#batch-slider div.plot .main-svg').length > 0")


class Comparison(Page):
    file = "compare.html"

    def test_only_what_differs_is_shown_first_and_it_is_marked(self):
        shown = "[...document.querySelectorAll('table.fields tbody tr:not([hidden])')]"
        self.assertTrue(self.browser.value(f"{shown}.every((row) => row.classList.contains('differs'))"))
        fields = self.browser.value(f"{shown}.map((row) => row.cells[0].textContent)")
        for field in ("run_id", "memory.peak_bytes", "memory.peak_operator"):
            self.assertIn(field, fields)
        self.browser.click(".tools input[type=checkbox]")
        self.assertGreater(self.browser.value(f"{shown}.length"), 3 * len(fields))

    def test_the_curves_of_both_lie_over_each_other(self):
        self.browser.value("document.querySelector('[data-pair]').scrollIntoView()")
        self.browser.wait_for("document.querySelector('[data-pair] .readout') !== null")
        names = self.browser.value("document.querySelector('[data-pair] div.plot').data.map((t) => t.name)")
        self.assertEqual(names, ["base: base/run", "new: new/run"])
        self.assertTrue(self.browser.value("typeof hacked === 'undefined'"))


class Hostile(Page):
    file = "hostile.html"

    def test_no_text_becomes_a_script_or_a_tag(self):
        self.assertTrue(self.browser.value("typeof hacked === 'undefined'"))
        self.assertEqual(self.browser.value("document.querySelectorAll('main img, main script').length"), 0)
        self.assertEqual(self.browser.value("document.querySelectorAll('script').length"), 2)  # data and page
        for address in self.browser.value("[...document.querySelectorAll('main a')].map((a) => a.protocol)"):
            self.assertIn(address, ("file:", "http:", "https:"))


class WithoutALibrary(Page):
    def setUp(self):
        text = (pages / "run/report.html").read_text()
        begin = text.index('<script type="text/plain" id="plotly">')
        (pages / "run/without.html").write_text(text[:begin] + text[text.index("</script>", begin):])
        self.file = "run/without.html"
        super().setUp()

    def test_the_pictures_stay(self):
        self.browser.value("document.querySelector('img.plot').scrollIntoView()")
        self.assertEqual(self.browser.value("[...document.querySelectorAll('img.plot')].map((i) => [i.complete, i.naturalWidth > 0])"),
                         [[True, True]] * 3)
        self.assertEqual(self.browser.value("document.querySelectorAll('div.plot').length"), 0)


del Page  # it has no tests of its own

if __name__ == "__main__":
    if browser.PROGRAM is None:
        peers_required.no_browser()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)

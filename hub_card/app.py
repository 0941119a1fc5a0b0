"""The page of the Space: scores a text against its references, or a file of pairs, and shows why.

`python app.py` starts it with the model that comes with the package, without a network.
"""

from __future__ import annotations

from pathlib import Path

import gradio as gr
from scoring import (
    DEFAULT,
    MAX_FILE_BYTES,
    MODELS,
    NUMBERS,
    columns_of,
    models_without_baseline,
    score_file,
    score_text,
)

KEPT_SECONDS = 3_600  # of uploaded and written files
CARD = Path(__file__).with_name("README.md")
EXAMPLES = [
    [
        "The bridge was closed because of strong winds.",
        "They shut the bridge on account of the high wind.\nStrong winds forced the bridge to close.",
    ],
    ["The drug is not safe for children.", "The drug is safe for children."],
    ["She forgot her umbrella on the train.", "She left her umbrella behind on the train."],
]
CSS = """
.gradio-container { max-width: 78rem !important; margin: 0 auto; }
.numbers input, .numbers textarea { padding: .4rem; font-variant-numeric: tabular-nums; }
.heat-map, .scores { overflow-x: auto !important; contain: inline-size; }
.heat-map { overflow-y: auto !important; max-height: 90vh; }
.heat-map .layout { align-items: start !important; } .heat-map img { max-width: none !important; zoom: .7; }
.scores td { white-space: pre-line; }
.explanation iframe { display: block; width: 100%; height: 24rem; border: 0; border-radius: .3rem; background: white; }
@media (min-width: 1024px) { .sides > :last-child { position: sticky; top: 1rem; align-self: flex-start; } }
"""
# Every explanation says how high it is, so that it needs no scroll bar of its own.
HEAD = """<script>
addEventListener("message", ({source, data}) => {
  const height = Number(data?.explanationHeight);
  for (const frame of document.querySelectorAll(".explanation iframe"))
    if (height > 0 && frame.contentWindow === source) frame.style.height = `${Math.min(Math.ceil(height), 20000)}px`;
});
</script>"""


def guide() -> str:
    """Return how to read the numbers, as the metric card beside this file says it."""
    return CARD.read_text(encoding="utf-8").partition("## How to read it\n")[2].partition("\n## ")[0]


def build() -> gr.Blocks:
    """Return the page."""
    with gr.Blocks(title="BERTScore", analytics_enabled=False, delete_cache=(KEPT_SECONDS, KEPT_SECONDS)) as page:
        gr.Markdown(
            "# BERTScore\nHow much of a text is supported by a reference (precision), and how much of the reference it "
            "says (recall), token by token. The first model comes with the page; the others are downloaded once."
        )
        with gr.Tab("Score a text"):
            _text_tab()
        with gr.Tab("Score a file"):
            _file_tab()
        with gr.Accordion("How to read it", open=False):
            gr.Markdown(guide())
    return page.queue(max_size=64)


def _text_tab() -> None:
    with gr.Row(elem_classes="sides"):
        with gr.Column():
            candidate = gr.Textbox(EXAMPLES[0][0], label="Candidate", info="The text to be judged.", lines=2)
            references = gr.Textbox(EXAMPLES[0][1], label="References", info="One a line.", lines=2)
            gr.Examples(EXAMPLES, [candidate, references], label="Examples")
            model = _model()
            with gr.Accordion("Settings", open=False):
                layer, rescale, language = _settings()
                idf_texts = gr.Textbox(
                    label="Texts to count idf in", info="One a line; rare words then weigh more. May be empty.", lines=2
                )
            button = gr.Button("Score", variant="primary")
        with gr.Column():
            numbers = _numbers("Precision", "Recall", "F1")
            best = gr.Textbox(label="Best reference", lines=1, interactive=False)
            notes = _notes()
            picture = gr.Plot(label="Heat map", show_label=False, format="png", elem_classes="heat-map")
            explanation = gr.HTML(label="Explanation", show_label=False, elem_classes="explanation")
            signature = _signature()
    inputs = [candidate, references, model, layer, idf_texts, rescale, language]
    outputs = [*numbers, best, notes, picture, explanation, signature]
    run = button.click(score_text, inputs, outputs, api_name="score_text", concurrency_limit=4)
    _show_what_there_is(run, [notes])
    _clear_after_errors(run, outputs)


def _file_tab() -> None:
    with gr.Row(elem_classes="sides"):
        with gr.Column():
            file = gr.File(label="Pairs", file_types=[".tsv", ".csv", ".jsonl"], height=120)
            column = gr.Dropdown([], label="Column of candidates", allow_custom_value=True)
            columns = gr.Dropdown([], label="Columns of references", multiselect=True, allow_custom_value=True)
            model = _model()
            with gr.Accordion("Settings", open=False):
                layer, rescale, language = _settings()
                idf = gr.Checkbox(label="Weigh by idf, counted in the references of the file")
            button = gr.Button("Score the file", variant="primary")
        with gr.Column():
            numbers = _numbers("Mean P", "Mean R", "Mean F1", width=160)
            notes = _notes()
            download = gr.DownloadButton("Download all scores (CSV)", visible=False)
            signature = _signature()
    table = gr.Dataframe(
        headers=["row", *NUMBERS, "candidate", "references"], label="Scores, lowest F1 first; a heading sorts",
        datatype=["number"] * 4 + ["str"] * 2, wrap=True, interactive=False,
        column_widths=[60, 100, 100, 100, 380, 380], elem_classes="scores",
    )  # fmt: skip
    file.change(columns_of, file, [column, columns], api_name=False)
    inputs = [file, column, columns, model, layer, idf, rescale, language]
    outputs = [*numbers, notes, table, download, signature]
    run = button.click(score_file, inputs, outputs, api_name="score_file", concurrency_limit=2)
    _show_what_there_is(run, [notes, download])
    _clear_after_errors(run, outputs)


def _model() -> gr.Dropdown:
    return gr.Dropdown([(name, model) for model, name in MODELS.items()], value=DEFAULT, label="Model")


def _settings() -> tuple[gr.Textbox, gr.Checkbox, gr.Textbox]:
    layer = gr.Textbox(label="Layer", placeholder="automatic", info="The model's best, unless you name one from 0.")
    rescale = gr.Checkbox(
        label="Rescale, so that random pairs score 0", info=f"Not with {' and '.join(models_without_baseline())}."
    )
    language = gr.Textbox(label="Language of the baseline", placeholder="automatic", info="To rescale: en, zh, ...")
    return layer, rescale, language


def _numbers(*labels: str, width: int = 90) -> list[gr.Textbox]:
    with gr.Row():
        return [gr.Textbox(label=label, interactive=False, min_width=width, elem_classes="numbers") for label in labels]


def _notes() -> gr.Textbox:
    return gr.Textbox(label="Notes", visible=False, interactive=False)


def _show_what_there_is(run: gr.events.Dependency, hidden: list[gr.Component]) -> None:
    """Show what a run has filled; programs get the values themselves, without how the page shows them."""

    def seen(*values: object) -> list[dict[str, object]]:
        return [gr.update(visible=bool(value)) for value in values]

    run.success(lambda *values: seen(*values) if len(values) > 1 else seen(*values)[0], hidden, hidden, api_name=False)


def _clear_after_errors(run: gr.events.Dependency, outputs: list[gr.Component]) -> None:
    hidden = {one: {} if one.visible else {"visible": False} for one in outputs}
    run.failure(lambda: [gr.update(value=None, **how) for how in hidden.values()], None, outputs, api_name=False)


def _signature() -> gr.Textbox:
    return gr.Textbox(label="Signature, to be reported with every score", interactive=False)


def main() -> None:
    """Warm up, then serve."""
    score_text(*EXAMPLES[0], DEFAULT, "", "", False, "")
    build().launch(
        theme=gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["monospace"]),  # none from elsewhere
        css=CSS, head=HEAD, max_file_size=MAX_FILE_BYTES, show_error=False, ssr_mode=False, footer_links=["api"],
    )  # fmt: skip


if __name__ == "__main__":
    main()

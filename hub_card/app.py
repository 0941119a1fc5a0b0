"""The page of the Space: scores a text against its references, or a file of pairs, and shows why.

`python app.py` starts it with the model that comes with the package, without a network.
"""

from __future__ import annotations

from pathlib import Path

import gradio as gr
from scoring import (
    MAX_FILE_BYTES,
    MODELS,
    NUMBERS,
    columns_of,
    model_names,
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
.explanation iframe { width: 100%; height: 24rem; border: 1px solid #ccc; border-radius: .3rem; background: white; }
"""


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
        with gr.Tab("Score a text") as tab, gr.Row():
            with gr.Column():
                candidate = gr.Textbox(EXAMPLES[0][0], label="Candidate", info="The text to be judged.", lines=2)
                references = gr.Textbox(EXAMPLES[0][1], label="References", info="One a line.", lines=3)
                model, layer, rescale, language = _settings()
                idf_texts = gr.Textbox(
                    label="Texts to count idf in", info="One a line; rare words then weigh more. May be empty.", lines=2
                )
                button = gr.Button("Score", variant="primary")
            with gr.Column():
                numbers = _numbers("Precision", "Recall", "F1")
                best = gr.Textbox(label="Best reference", lines=1)
                notes = _notes()
                picture = gr.Plot(show_label=False, format="png", elem_classes="heat-map")
                explanation = gr.HTML(elem_classes="explanation")
                signature = _signature()
        inputs = [candidate, references, model, layer, idf_texts, rescale, language]
        outputs = [*numbers, best, notes, picture, explanation, signature]
        with tab:
            gr.Examples(EXAMPLES, [candidate, references], label="Examples")
        run = button.click(score_text, inputs, outputs, api_name="score_text", concurrency_limit=4)
        _clear_after_errors(run, outputs)

        with gr.Tab("Score a file") as tab, gr.Row():
            with gr.Column():
                file = gr.File(label="Pairs", file_types=[".tsv", ".csv", ".jsonl"], height=120)
                column = gr.Dropdown([], label="Column of candidates", allow_custom_value=True)
                columns = gr.Dropdown([], label="Columns of references", multiselect=True, allow_custom_value=True)
                model, layer, rescale, language = _settings()
                idf = gr.Checkbox(label="Weigh by idf, counted in the references of the file")
                button = gr.Button("Score the file", variant="primary")
            with gr.Column():
                numbers = _numbers("Mean P", "Mean R", "Mean F1", width=160)
                notes = _notes()
                download = gr.DownloadButton("Download all scores (CSV)", visible=False)
                signature = _signature()
        with tab:
            table = gr.Dataframe(
                headers=["row", *NUMBERS, "candidate", "references"], label="Scores", datatype="str", wrap=True,
                interactive=False, column_widths=[60, 100, 100, 100, 380, 380], elem_classes="scores",
            )  # fmt: skip
        file.change(columns_of, file, [column, columns], api_name=False)
        inputs = [file, column, columns, model, layer, idf, rescale, language]
        outputs = [*numbers, notes, table, download, signature]
        run = button.click(score_file, inputs, outputs, api_name="score_file", concurrency_limit=2)
        _clear_after_errors(run, outputs)

        with gr.Accordion("How to read it", open=False):
            gr.Markdown(guide())
    return page.queue(max_size=64)


def _settings() -> tuple[gr.Dropdown, gr.Number, gr.Checkbox, gr.Textbox]:
    names = [(name, model) for model, name in model_names().items()]
    with gr.Row():
        model = gr.Dropdown(names, value=MODELS[0], label="Model")
        layer = gr.Textbox(label="Layer", placeholder="the best")
    with gr.Row():
        rescale = gr.Checkbox(
            label="Rescale, so that random pairs score 0", info=f"Not with {' and '.join(models_without_baseline())}."
        )
        language = gr.Textbox(label="Language of the baseline", placeholder="en, zh, ...")
    return model, layer, rescale, language


def _numbers(*labels: str, width: int = 90) -> list[gr.Textbox]:
    with gr.Row():
        return [gr.Textbox(label=label, interactive=False, min_width=width, elem_classes="numbers") for label in labels]


def _notes() -> gr.Textbox:
    return gr.Textbox(label="Notes", visible=False, interactive=False)


def _clear_after_errors(run: gr.events.Dependency, outputs: list[gr.Component]) -> None:
    hidden = {one: {} if one.visible else {"visible": False} for one in outputs}
    run.failure(lambda: [gr.update(value=None, **how) for how in hidden.values()], None, outputs, api_name=False)


def _signature() -> gr.Textbox:
    return gr.Textbox(label="Signature, to be reported with every score", interactive=False)


def main() -> None:
    """Warm up, then serve."""
    score_text(*EXAMPLES[0], MODELS[0], "", "", False, "")
    build().launch(
        theme=gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["monospace"]),  # none from elsewhere
        css=CSS, max_file_size=MAX_FILE_BYTES, show_error=False, ssr_mode=False, footer_links=["api"],
    )  # fmt: skip


if __name__ == "__main__":
    main()

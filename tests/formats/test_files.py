import pytest

from railweave.formats.files import StagedFiles


def test_a_file_that_cannot_be_written_is_named_as_asked(tmp_path):
    stage = StagedFiles(tmp_path / "nowhere")
    with pytest.raises(OSError, match="No such file") as caught:
        stage.write_text("plan.html", "text")
    assert caught.value.filename == str(tmp_path / "nowhere" / "plan.html")
    stage.discard()


def test_errors_of_other_files_keep_their_names(tmp_path):
    stage = StagedFiles(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        stage.write("a", lambda _: (tmp_path / "else").read_text(encoding="utf-8"))
    assert caught.value.filename == str(tmp_path / "else")
    stage.discard()
    assert not list(tmp_path.iterdir())

"""Descriptions of charts, shared by the matplotlib plots and the HTML report."""

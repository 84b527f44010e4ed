def line(fields):
    def field(text):
        if any(mark in text for mark in ',"\n\r'):
            return '"' + text.replace('"', '""') + '"'
        return text
    return ','.join(field(text) for text in fields)
